"""Tests of the state: a client carries it and may change it, and every change is refused alike.

The refusal is one frozen -32602 without an effect, whatever is wrong. A test also shows what a
client can read in a state.
"""

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options.sdk.protection import MAX_TOKEN_BYTES, new_key, read_without_key
from mrtr_options.sdk.reasons import Reason, data_of
from mrtr_options.sdk.telemetry import without_name
from mrtr_options.tool.server import TOOL, Context
from mrtr_options.tool.settings import Settings
from tests.sending import (
    Response,
    answer,
    connected,
    counts,
    good,
    instance,
    round_of,
    send,
    settings,
)

pytestmark = pytest.mark.anyio

FROZEN = "Invalid or expired requestState"
stateful = pytest.mark.parametrize("letter", list("EFGHIJ"))


def state_of(asked: Response) -> str:
    assert isinstance(asked, types.InputRequiredResult)
    assert asked.request_state is not None
    return asked.request_state


@dataclass
class Sender:
    """A client that sends states which are to be refused.

    Attributes:
        client: The client.
        run_with: The settings of its server.
        asked: The response whose questions it answers.
    """

    client: Client
    run_with: Settings
    asked: Response

    async def is_refused(
        self,
        state: str,
        *,
        location: str = "Springfield",
        reason: str = "invalid_request_state",
        tool: str = TOOL,
    ) -> None:
        """Check that a state gets the frozen refusal, and that nothing happens."""
        before = await counts(self.run_with)
        forged = types.InputRequiredResult(request_state=state)
        answers = await good(self.asked)
        with pytest.raises(MCPError) as refusal:
            await round_of(self.client, tool, {"location": location}, forged, answers)
        _check_frozen(refusal.value, reason)
        assert await counts(self.run_with) == before


def _check_frozen(error: MCPError, reason: str = "invalid_request_state") -> None:
    assert error.code == types.INVALID_PARAMS
    assert error.message == FROZEN
    is_expired = reason == Reason.STATE_EXPIRED
    assert error.error.data == (data_of(Reason.STATE_EXPIRED) if is_expired else {"reason": reason})


@stateful
async def test_whose_own_state_is_too_old_is_told_so_and_no_other_caller_is(letter: str) -> None:
    """Check that another caller cannot learn from the refusal that an old state was good."""
    caller = "the one"
    now = time.time()

    def principal(ctx: Context) -> str:
        return caller

    run_with = replace(settings(), ttl_seconds=60.0, principal=principal, clock=lambda: now)
    async with connected(instance(letter, run_with)) as client:
        asked = await send(client, "Springfield")
        now += 61.0
        state = state_of(asked)
        sender = Sender(client, run_with, asked)
        await sender.is_refused(state, reason="request_state_expired")
        await sender.is_refused(state[:-2])
        await sender.is_refused(state, location="Portland")
        caller = "another"
        await sender.is_refused(state)


@stateful
async def test_a_state_is_good_for_its_own_tool_method_option_and_key_alone(letter: str) -> None:
    run_with = replace(settings(), keys=[new_key()])
    async with connected(instance(letter, run_with)) as client:
        asked = await send(client, "Springfield")
        state = state_of(asked)
        sender = Sender(client, run_with, asked)
        too_long = state.ljust(MAX_TOKEN_BYTES + 1, "A")
        for other in ("", "s1.", "s1..", "s1.é.x", "s1.\ud800", "v1.", "v1.é", "null", too_long):
            await sender.is_refused(other)
        for other in ("climate", "Weather"):
            await sender.is_refused(state, tool=other)
        with pytest.raises(MCPError) as refusal:
            await client.session.get_prompt(TOOL, {"location": "Springfield"}, request_state=state)
        _check_frozen(refusal.value)
    others = [(other, run_with) for other in sorted(set("EFGHI") - {letter})]
    others += [(letter, replace(run_with, keys=keys)) for keys in ([new_key()], None)]
    for other, its in others:
        async with connected(instance(other, its)) as client:
            await Sender(client, its, asked).is_refused(state)


def readable(asked: Response) -> Any:
    """Return the author's part of a state, read without any key; None if it is sealed."""
    payload = read_without_key(state_of(asked))
    return payload and json.loads(json.loads(without_name(payload))["s"])


@pytest.mark.parametrize(
    ("letter", "first", "second"),
    [
        ("E", {}, {"place": "Springfield, Illinois"}),
        ("F", {"done": ["audit"]}, {"done": ["audit"], "place": "Springfield, Illinois"}),
        ("G", {}, {"finished": {"place": {"place": "Springfield, Illinois"}}}),
        *((sealed, None, None) for sealed in "IJ"),
    ],
)
async def test_a_client_can_read_of_a_state_only_what_it_told_and_the_markers(
    letter: str, first: Any, second: Any
) -> None:
    async with connected(instance(letter, settings())) as client:
        asked = await send(client, "Springfield")
        assert readable(asked) == first
        assert readable(await answer(client, "Springfield", asked)) == second
