"""Tests of old clients: pushed questions, and the shim that hides these clients from a handler."""

import importlib
from collections.abc import Callable
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.handler import Result
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.sdk.push import push, push_request
from mrtr_options.sdk.questions import (
    Cancelled,
    CannotAsk,
    Declined,
    ask,
    link,
    request_for,
)
from mrtr_options.sdk.replay import keyed_replay
from mrtr_options.sdk.waiting import GO_ON
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    asking,
    asking_at_once,
    capabilities,
    of_session,
    params,
    result,
    who,
)
from tests.sending import text_of

pytestmark = pytest.mark.anyio

shim: Any = importlib.import_module("mrtr_options.sdk.legacy_shim")
"""The module; `from mrtr_options.sdk import legacy_shim` is its function."""


def legacy(*, can_send_request: bool = True, **user: Any) -> Context:
    session = FakeSession(capabilities(form=True), can_send_request=can_send_request, **user)
    return of_session(session, modern=False)


async def accepting(request: types.ServerRequest) -> types.InputResponse:
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def test_without_a_back_channel_the_handler_sees_the_old_client_as_it_is() -> None:
    seen: list[tuple[Context, Params]] = []

    async def handler(ctx: Context, params: Params) -> types.CallToolResult:
        seen.append((ctx, params))
        return result("as it is")

    ctx = legacy(can_send_request=False)
    call = params()
    assert text_of(await legacy_shim(handler)(ctx, call)) == "as it is"
    assert seen == [(ctx, call)]
    assert not is_modern(seen[0][0])


ASKS_BOTH = legacy_shim(keyed_replay(asking_at_once("one", "two")))
"""A tool that asks two questions at once; only a modern client can be asked so."""


async def test_every_question_of_a_round_is_answered_and_the_state_comes_back() -> None:
    assert text_of(await ASKS_BOTH(legacy(user=accepting), params())) == "Ann and Ann"


class Time:
    """A clock that moves only in sleeps, with the list of the sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def current_time(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Replace the clock of the shim."""
    time = Time()
    monkeypatch.setattr(shim, "anyio", time)
    return time


@pytest.mark.parametrize("asks", [("who",), ("who", "other")])
async def test_a_handler_that_asks_the_same_for_ever_is_stopped(asks: tuple[str, ...]) -> None:
    rounds = 0

    async def handler(ctx: Context, params: Params) -> types.InputRequiredResult:
        nonlocal rounds
        rounds += 1
        return ask(who(asks[rounds % len(asks)]))

    with pytest.raises(MCPError, match="asks again and again") as refusal:
        await legacy_shim(handler)(legacy(user=accepting), params())
    assert refusal.value.code == types.INTERNAL_ERROR
    assert rounds == len(asks) + shim.MAX_IDLE_ROUNDS


async def test_a_user_who_goes_on_waiting_waits_for_as_long_as_the_handler_asks() -> None:
    rounds = 0

    async def handler(ctx: Context, params: Params) -> Result:
        nonlocal rounds
        rounds += 1
        return ask(who(GO_ON)) if rounds < 3 * shim.MAX_IDLE_ROUNDS else result("done")

    assert text_of(await legacy_shim(handler)(legacy(user=accepting), params())) == "done"


async def test_a_tool_with_more_questions_than_idle_rounds_gets_each_answer() -> None:
    keys = [f"question {number}" for number in range(3 * shim.MAX_IDLE_ROUNDS)]
    tool = legacy_shim(keyed_replay(asking(*keys)))
    said = text_of(await tool(legacy(user=accepting), params()))
    assert said == " and ".join(["Ann"] * len(keys))


async def test_a_tool_that_never_stops_asking_something_new_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shim, "MAX_ROUNDS", 3)
    session = FakeSession(capabilities(form=True), can_send_request=True, user=accepting)

    async def handler(ctx: Context, params: Params) -> Result:
        assert len(session.pushed) < 9
        return ask(who(f"number {len(session.pushed)}"))

    with pytest.raises(MCPError, match="still asks after 3 rounds"):
        await legacy_shim(handler)(of_session(session, modern=False), params())
    assert len(session.pushed) == 3


async def test_a_result_that_is_put_off_is_waited_for_with_pauses_that_grow(time: Time) -> None:
    entered = 0

    async def handler(ctx: Context, params: Params) -> Result:
        nonlocal entered
        entered += 1
        if params.input_responses and "who" in params.input_responses:
            return types.InputRequiredResult(request_state="still at work")
        if time.now < 60:
            return types.InputRequiredResult(request_state="at work")
        return result("done") if entered > 5 else ask(who())

    assert text_of(await legacy_shim(handler)(legacy(user=accepting), params())) == "done"
    assert time.slept[:3] == [0.05, 0.1, 0.2]
    assert max(time.slept) == shim.LONGEST_PAUSE_SECONDS
    assert entered < 60 / shim.LONGEST_PAUSE_SECONDS + 10


async def test_a_result_that_is_put_off_for_ever_is_given_up_and_says_so(time: Time) -> None:
    async def handler(ctx: Context, params: Params) -> Result:
        return types.InputRequiredResult(request_state="at work")

    with pytest.raises(MCPError, match="put its result off for 600 s, and may still be at work"):
        await legacy_shim(handler)(legacy(user=accepting), params())
    assert 600 <= time.now <= 600 + shim.LONGEST_PAUSE_SECONDS


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_after_a_no_the_other_questions_of_the_round_are_not_shown(
    action: Literal["decline", "cancel"],
) -> None:
    async def declining(request: types.ServerRequest) -> types.InputResponse:
        return types.ElicitResult(action=action)

    session = FakeSession(capabilities(form=True), can_send_request=True, user=declining)
    with pytest.raises((Declined, Cancelled)):
        await ASKS_BOTH(of_session(session, modern=False), params())
    assert len(session.pushed) == 1


async def test_an_address_is_pushed_with_the_number_that_old_clients_want() -> None:
    session = FakeSession(capabilities(form=True), can_send_request=True, user=accepting)
    asked = request_for(link("pay", "Pay here.", "https://pay.example"))
    await push_request(of_session(session, modern=False), "pay", asked)
    (request,) = session.pushed
    assert isinstance(request, types.ElicitRequest)
    assert isinstance(request.params, types.ElicitRequestURLParams)
    assert request.params.elicitation_id


@pytest.mark.parametrize(
    ("raised", "says"),
    [
        (lambda: MCPError(types.INVALID_REQUEST, "the user has gone"), "has gone"),
        (lambda: types.ElicitResult.model_validate({}), "'who' does not fit .* type ElicitResult"),
    ],
)
async def test_what_is_no_answer_is_an_error(raised: Callable[[], Exception], says: str) -> None:
    async def user(request: types.ServerRequest) -> types.InputResponse:
        raise raised()

    with pytest.raises(MCPError, match=says):
        await push(legacy(user=user), who(assumed="Nobody"))


@pytest.mark.parametrize(
    ("session", "is_new"),
    [
        (FakeSession(capabilities(form=True), can_send_request=False), False),
        (FakeSession(capabilities(form=True), can_send_request=True), True),
        (FakeSession(capabilities(url=True), can_send_request=True), False),
        (FakeSession(types.ClientCapabilities(), can_send_request=True), False),
        (FakeSession(None, can_send_request=True), False),
    ],
    ids=["no-back-channel", "modern", "url-only", "no-elicitation", "nothing-declared"],
)
async def test_a_client_that_cannot_be_pushed_to_is_not(session: FakeSession, is_new: bool) -> None:
    ctx = of_session(session, modern=is_new)
    assert (await push(ctx, who(assumed="Nobody"))).name == "Nobody"
    with pytest.raises(CannotAsk, match="Say who who is"):
        await push(ctx, who())
    assert session.pushed == []
