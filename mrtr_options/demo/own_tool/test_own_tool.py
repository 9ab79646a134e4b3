"""own_tool with three kinds of client, which lose, repeat, decline and confirm.

What another style of the tool may do otherwise stands at the top.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import chain, cycle, repeat
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, patch

import anyio
import pytest
from mcp_types import ElicitResult, InputResponses
from mrtr_options import sdk
from mrtr_options.sdk.testing import (
    NO_RESPONSE,
    POLICIES,
    Losing,
    Policy,
    call_as_client,
    client,
    served,
)

from mrtr_options.demo.own_tool.default import (
    TOOL,
    Records,
    World,
    caller_of,
    instance,
)

# A call with the same reference asks nothing, and says that it is a repeat.
REPEAT_IS_TOLD = True
# The consent to an old fee is not taken for a new fee.
CHANGE_IS_ASKED = True
# Answers that come with a first request are no consent.
EARLY_IS_ASKED = True
# The rounds of a call may go to different instances.
ANY_INSTANCE = True

SETTINGS = sdk.Settings(keys=[secrets.token_bytes(32)], principal=caller_of)
ARGUMENTS = {"item": "a thing", "reference": "order 1"}
TOKEN = "token-of-ada"


class User:
    """Somebody who takes express, and remembers what they were asked."""

    def __init__(self, go_ahead: str = "yes") -> None:
        self.answers = {"way": "express", "go_ahead": go_ahead}
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        """Fill in a form."""
        self.asked.append(params.message)
        (name,) = params.requested_schema["properties"]
        return ElicitResult(action="accept", content={name: self.answers[name]})


class Setup:
    """Two instances on one store and one database, and what clients do to them.

    Attributes:
        urls: Where the instances are. One with another fee is of a later version.
        records: Where the effect goes.
    """

    def __init__(self, urls: list[str], records: Records) -> None:
        self.urls = urls
        self.records = records

    async def call(
        self,
        policy: Policy = "stops",
        user: User | None = None,
        lose: int = 0,
        token: str | None = TOKEN,
        **arguments: str,
    ) -> str:
        """Make a call, at both instances in turn, and return what its user is told."""
        urls = self.urls if ANY_INSTANCE else self.urls[:1]
        way = Losing([lose], turns=cycle(urls))
        answer = (user or User()).answer

        def connect() -> Any:
            return client(self.urls[0], answer, way, token=token)

        return await call_as_client(policy, connect, TOOL, ARGUMENTS | arguments)


@asynccontextmanager
async def setup(folder: Path, later_fee: int) -> AsyncGenerator[Setup]:
    """Serve both instances while the block lasts."""
    records = Records(folder / "records.sqlite")
    async with AsyncExitStack() as stack:
        urls: list[str] = []
        for fee in (World.fee, later_fee):
            server = stack.enter_context(instance(folder, SETTINGS, fee))
            urls.append(await stack.enter_async_context(served(server)))
        yield Setup(urls, records)


def play(
    folder: Path, scene: Callable[[Setup], Awaitable[None]], later_fee: int = World.fee
) -> None:
    """Play a scene with both instances."""

    async def run() -> None:
        async with setup(folder, later_fee) as both:
            await scene(both)

    anyio.run(run)


DONE = ("ada", "order 1", "a thing, express, for 5")


@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("policy", POLICIES)
def test_it_is_done_once_whichever_response_is_lost(
    tmp_path: Path, policy: Policy, lost: int
) -> None:
    async def scene(both: Setup) -> None:
        user = User()
        said = await both.call(policy, user, lost)
        if policy == "stops":
            # Its user knows nothing, also where the third response had the result.
            assert said == NO_RESPONSE
            assert len(both.records.all()) == lost // 3
            said = await both.call()
        assert DONE[2] in said
        assert both.records.all() == [DONE]
        if REPEAT_IS_TOLD:
            assert len(user.asked) <= 2  # nobody is asked twice

    play(tmp_path, scene)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_reference_is_the_same_call_and_another_one_is_another(
    tmp_path: Path, policy: Policy
) -> None:
    async def scene(both: Setup) -> None:
        await both.call()
        user = User()
        again = await both.call(policy, user)
        assert DONE[2] in again
        assert both.records.all() == [DONE]
        if REPEAT_IS_TOLD:
            assert "was made before" in again
            assert user.asked == []
        assert "Recorded under order 2" in await both.call(reference="order 2")
        assert len(both.records.all()) == 2

    play(tmp_path, scene)


def test_the_same_reference_with_another_item_does_nothing(tmp_path: Path) -> None:
    async def scene(both: Setup) -> None:
        await both.call()
        assert (await both.call(item="another thing")).startswith("error: ")
        assert both.records.all() == [DONE]

    play(tmp_path, scene)


def test_the_same_reference_of_another_caller_is_theirs(tmp_path: Path) -> None:
    async def scene(both: Setup) -> None:
        await both.call()
        assert "was made before" not in await both.call(token="token-of-bob")
        assert both.records.all() == [DONE, ("bob", *DONE[1:])]
        assert (await both.call(token=None)).startswith("error: ")

    play(tmp_path, scene)


def test_a_consent_is_to_the_fee_that_the_user_was_told(tmp_path: Path) -> None:
    user = User()

    async def scene(both: Setup) -> None:
        old, new = both.urls
        way = Losing(
            turns=chain([old, old], repeat(new))
        )  # a new version, as the consent comes

        def connect() -> Any:
            return client(old, user.answer, way, token=TOKEN)

        said = await call_as_client("stops", connect, TOOL, ARGUMENTS)
        if not ANY_INSTANCE:
            assert said.startswith("error: ")  # the call is lost
            assert both.records.all() == []
            return
        assert ("for 7: go ahead?" in user.asked[-1]) == CHANGE_IS_ASKED
        assert "a thing, express, for 7" in said

    play(tmp_path, scene, later_fee=7)


def test_who_declines_is_asked_again_when_they_call_again(tmp_path: Path) -> None:
    async def scene(both: Setup) -> None:
        assert "declined" in await both.call(user=User(go_ahead="no"))
        assert both.records.all() == []
        assert "Recorded" in await both.call()
        assert both.records.all() == [DONE]

    play(tmp_path, scene)


def test_answers_that_come_with_the_first_request_are_no_consent(
    tmp_path: Path,
) -> None:
    user = User()

    async def scene(both: Setup) -> None:
        async with client(both.urls[0], user.answer, token=TOKEN) as caller:
            rounds = AsyncMock(wraps=caller.session.call_tool)
            with patch.object(caller.session, "call_tool", rounds):
                await caller.call_tool(TOOL, ARGUMENTS | {"reference": "order 0"})
            user.asked.clear()
            early: InputResponses = {}
            for each in rounds.await_args_list:
                early |= each.kwargs["input_responses"] or {}
            await caller.call_tool(TOOL, ARGUMENTS, input_responses=early)
        assert len(user.asked) == (2 if EARLY_IS_ASKED else 0)

    play(tmp_path, scene)
