"""Tests of the single-use guard by examples; `test_any_tool` and `test_single_use_store` draw."""

import json
import math
import time
import uuid
from dataclasses import replace
from typing import Any
from unittest.mock import AsyncMock

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.sdk.call_key import CALL_KEY, call_key_of, new_call_key
from mrtr_options.sdk.handler import NotBegun
from mrtr_options.sdk.protection import ANSWER_BY
from mrtr_options.sdk.questions import (
    BadAnswer,
    answer_to,
    ask,
    length_in_token,
    link,
    request_for,
)
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.single_use import guard as guards
from mrtr_options.sdk.single_use import outcomes, round_state, running, single_use
from mrtr_options.sdk.single_use.reservations import Store
from tests.bounds import SECONDS
from tests.sdk.fakes import (
    Context,
    FakeSession,
    Params,
    capabilities,
    deliver,
    key_made,
    modern,
    named,
    of_session,
    params,
    refused,
    result,
    unfit,
    until,
    who,
)
from tests.sdk.guarded_tool import (
    ADA,
    BOB,
    INDETERMINATE,
    SPENT,
    State,
    Tool,
    guarded,
    refused_once_begun,
)
from tests.sending import Response

pytestmark = pytest.mark.anyio


SIGN_IN = link("url", "Sign in", "http://127.0.0.1/").request


@pytest.mark.parametrize(
    "response",
    [
        types.CallToolResult(
            content=[types.ImageContent(data="AAAA", mime_type="image/png")],
            structured_content={
                "none": None,
                "list": [None, {"deep": None}],
                "code": 1,
                "message": "m",
            },
            is_error=True,
        ),
        types.CallToolResult.model_validate({"content": [], "_meta": {"none": None}}),
        types.GetPromptResult(description="of a prompt", messages=[]),
        types.ReadResourceResult(contents=[]),
        types.InputRequiredResult(
            input_requests={"url": SIGN_IN, "roots": types.ListRootsRequest()}
        ),
    ],
    ids=["result", "meta", "prompt", "resource", "questions"],
)
async def test_a_recorded_response_says_all_that_the_first_did(response: Any, store: Store) -> None:
    """Repeat the round with keys in another order, and with an answer to no question."""

    async def tool(ctx: Context, params: Params) -> Response:
        assert set(params.input_responses or {}) <= {"who"}, "is given what it did not ask"
        return response if params.input_responses else ask(who())

    handler = guarded(tool, store)
    asked = await deliver(handler)
    content: dict[str, Any] = {"name": "Ada", "extra": "x"}
    more: types.InputResponses = {"more": types.ListRootsResult(roots=[])}
    one_way, other_way = (
        {"who": types.ElicitResult(action="accept", content=said)} | more
        for said in (content, dict(reversed(content.items())))
    )
    first = await deliver(handler, asked, one_way)
    meta = {name: said for name, said in (first.meta or {}).items() if name != ANSWER_BY}
    assert first.model_copy(update={"request_state": None, "meta": meta or None}) == response
    assert await deliver(handler, asked, dict(reversed(other_way.items()))) == first


class Gone(FakeSession):
    """The stream of a client that receives nothing any more."""

    async def report_progress(self, progress: float) -> None:
        await anyio.sleep_forever()


async def test_a_round_whose_client_has_left_goes_on_and_its_reports_are_dropped(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "PROGRESS_SECONDS", 0.05)

    async def tool(ctx: Context, given: Params) -> Response:
        await ctx.session.report_progress(1)
        return result("done")

    handler = single_use(store, round_seconds=9)(tool)
    left = of_session(Gone(capabilities(form=True)), modern=True)
    assert await deliver(handler, ctx=left, key=new_call_key()) == result("done")


async def test_a_spent_round_without_answers_is_refused_to_who_cannot_be_asked(
    store: Store,
) -> None:
    """Refuse it, since it would end the call with the question's assumed answer."""
    effects: list[str] = []

    async def tool(ctx: Context, given: Params) -> Response:
        name = answer_to(who(assumed="Somebody"), ctx, given)
        if name is None:
            return ask(who(assumed="Somebody"), State())
        effects.append(name.name)
        return result(name.name)

    handler = guarded(tool, store)
    asked = await deliver(handler)
    other = await deliver(handler)
    assert await deliver(handler, asked, ADA) == result("Ada")
    with pytest.raises(MCPError, match="answered differently"):
        await handler(modern(forms=False), params(None, asked))
    for _ in range(2):
        assert await deliver(handler, other, ctx=modern(forms=False)) == result("Somebody")
    assert await refused(handler, other, ADA) == SPENT
    assert effects == ["Ada", "Somebody"]


async def test_a_round_that_did_nothing_may_be_answered_again(store: Store) -> None:
    away = NotBegun(types.INVALID_PARAMS, "Not here.", {"reason": "unknown_continuation"})
    endings = [BadAnswer("who", "it is unknown"), away]
    tool = Tool()

    async def handler(ctx: Context, given: Params) -> Response:
        if given.input_responses and endings:
            raise endings.pop(0)
        return await tool(ctx, given)

    caller = guarded(handler, store)
    asked = await deliver(caller)
    assert isinstance(await deliver(caller, asked), types.InputRequiredResult)
    for reason in ("invalid_answer", "unknown_continuation"):
        assert await refused(caller, asked, ADA) == (types.INVALID_PARAMS, reason)
    assert await deliver(caller, asked, BOB) == result("Bob, asked 1 times")
    assert await refused(caller, asked) == SPENT


async def test_a_delivery_tries_a_failed_round_as_often_as_its_author_says(store: Store) -> None:
    failures = 3 * [OSError("the printer is on fire")]

    async def fail() -> None:
        if failures:
            raise failures.pop()

    tool = Tool(half_way=fail)
    caller = single_use(store, attempts=3)(tool)
    asked = await deliver(caller)
    assert await refused(caller, asked, ADA) == INDETERMINATE
    assert tool.effects == ["Ada"] * 3
    assert await deliver(caller, asked, ADA) == result("Ada, asked 1 times")


async def test_an_error_of_the_protocol_is_an_answer_and_no_failed_round(store: Store) -> None:
    tool = Tool(half_way=AsyncMock(side_effect=MCPError(-32000, "closed", {"reason": "closed"})))
    caller = single_use(store, attempts=3)(tool)
    asked = await deliver(caller)
    assert await refused(caller, asked, ADA) == (-32000, "closed")
    assert tool.effects == ["Ada"]


@pytest.mark.parametrize("attempts", [1, 2])
async def test_a_round_that_took_too_long_runs_again_if_it_may_and_with_the_same_answers_alone(
    attempts: int, store: Store
) -> None:
    tool = Tool(half_way=anyio.sleep_forever)
    caller = single_use(store, attempts=attempts)(tool)
    asked = await deliver(caller)
    hurried = single_use(store, round_seconds=0.2, attempts=attempts)(tool)
    assert await refused_once_begun(tool, hurried, asked) == INDETERMINATE
    tool.half_way = None
    assert await refused(caller, asked, BOB) == SPENT
    if attempts == 1:
        assert await refused(caller, asked, ADA) == INDETERMINATE
    else:
        assert await deliver(caller, asked, ADA) == result("Ada, asked 1 times")


async def test_a_round_that_has_begun_is_recorded_when_its_client_has_left(store: Store) -> None:
    left = anyio.Event()
    tool = Tool(half_way=left.wait)
    caller = guarded(tool, store)
    asked = await deliver(caller)
    async with anyio.create_task_group() as client:
        client.start_soon(deliver, caller, asked, ADA)
        await until(lambda: tool.effects == ["Ada"])
        client.cancel_scope.cancel()
        left.set()
    assert await deliver(caller, asked, ADA) == result("Ada, asked 1 times")
    assert tool.effects == ["Ada"]


async def test_a_bad_answer_beside_a_good_one_gives_no_round_back_after_an_effect(
    store: Store,
) -> None:
    effects: list[str] = []

    async def tool(ctx: Context, given: Params) -> Response:
        if not given.input_responses:
            both: types.InputRequests = {key: request_for(who(key)) for key in ("first", "second")}
            return types.InputRequiredResult(input_requests=both)
        effects.append("between the answers")
        raise BadAnswer("second", "it is unknown")

    handler = guarded(tool, store)
    asked = await deliver(handler)
    bad = (types.INVALID_PARAMS, "invalid_answer")
    assert await refused(handler, asked, named("Ada", "first") | unfit("second")) == bad
    assert effects == [], "the schema tells that it is bad, before anything runs"
    for _ in range(20):
        assert await refused(handler, asked, named("Ada", "first") | named("Bob", "second")) == bad
    assert effects == ["between the answers"]


@pytest.mark.parametrize("charges_first", [False, True])
async def test_a_bad_answer_beside_a_good_one_may_be_corrected_if_no_effect_has_begun(
    charges_first: bool, store: Store
) -> None:
    effects: list[str] = []

    async def tool(ctx: ReplayContext[Any], given: Params) -> types.CallToolResult:
        _, second = await ctx.elicit_all(who("first"), who("second"))
        if charges_first:
            await ctx.once("charge", effects.append)
        if second.name == "Bob":
            raise BadAnswer("second", "it is unknown")
        return result(second.name)

    handler = single_use(store)(keyed_replay(tool))
    asked = await deliver(handler)
    first, corrected = [named("Ada", "first") | named(name, "second") for name in ("Bob", "Eve")]
    assert await refused(handler, asked, first) == (types.INVALID_PARAMS, "invalid_answer")
    if charges_first:
        assert await refused(handler, asked, corrected) == SPENT
    else:
        assert await deliver(handler, asked, corrected) == result("Eve")
    assert len(effects) == int(charges_first)


ENVELOPE = json.dumps({"who": {"action": "accept", "content": {"name": ""}}})
LONGEST = {
    "answer": round_state.MAX_STATE_BYTES - length_in_token(ENVELOPE),
    "response": outcomes.MAX_RESPONSE_BYTES - len(outcomes.write_response(result(""))),
}
REFUSALS = {
    "answer": (types.INVALID_PARAMS, "invalid_answer"),
    "response": (types.INTERNAL_ERROR, "result_too_long"),
}


@pytest.mark.parametrize("what", LONGEST)
async def test_what_is_too_long_is_refused_or_given_once_and_no_effect_happens_again(
    what: str, store: Store
) -> None:
    text = "x" * LONGEST[what]
    effects: list[str] = []

    async def tool(ctx: Context, params: Params) -> Response:
        if params.input_responses is None:
            return ask(who())
        effects.append("done")
        return result(text if what == "response" else "")

    def answer() -> types.InputResponses:
        return named(text) if what == "answer" else ADA

    handler = guarded(tool, store)
    asked = await deliver(handler)
    longest = await deliver(handler, asked, answer())
    assert await deliver(handler, asked, answer()) == longest
    text += "x"
    asked = await deliver(handler)
    if what == "response":
        await deliver(handler, asked, ADA)
    for _ in range(2):
        assert await refused(handler, asked, answer()) == REFUSALS[what]
    if what == "answer":
        await deliver(handler, asked, ADA)  # a second answer is allowed
    assert effects == ["done"] * 2


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "returned NoneType, and no result"),
        ("done", "returned str, and no result"),
        (result("\ud800"), "surrogates not allowed"),
        (result("x").model_copy(update={"meta": {"x": math.nan}}), "has no JSON"),
        (SystemExit("it ends"), "SystemExit: it ends"),
    ],
)
async def test_a_round_without_a_result_that_can_be_kept_is_indeterminate_at_once(
    given: Any, says: str, store: Store
) -> None:
    tool = Tool()

    async def handler(ctx: Context, params: Params) -> Any:
        asked = await tool(ctx, params)
        if isinstance(asked, types.InputRequiredResult):
            return asked
        if isinstance(given, BaseException):
            raise given
        return given

    caller = guarded(handler, store)
    asked = await deliver(caller)
    with pytest.raises(MCPError) as raised:
        await deliver(caller, asked, ADA)
    assert says in str(raised.value.__cause__ or raised.value)
    for _ in range(2):
        assert await refused(caller, asked, ADA) == INDETERMINATE
    assert tool.effects == ["Ada"]


@pytest.mark.parametrize(
    "state", ["", "garbage", "null", "[]", "{}", '{"number": "x"}', '{"asked":1}']
)
async def test_a_state_that_is_not_the_guards_is_refused(state: str, store: Store) -> None:
    tool = Tool()
    asked = types.InputRequiredResult(request_state=state)
    expected = (types.INVALID_PARAMS, "invalid_request_state")
    assert await refused(guarded(tool, store), asked, ADA) == expected
    assert tool.entered == 0


async def test_a_crowd_on_one_round_does_not_wait_and_others_wait_for_a_bounded_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guards, "MAX_WAITERS", 3)
    over = anyio.Event()
    others = list[object]()
    tool = Tool(half_way=over.wait)
    handler = guarded(tool, store)
    bystander = await deliver(handler)
    asked = await deliver(handler)

    async def add() -> None:
        try:
            others.append(await deliver(handler, asked, ADA))
        except MCPError as refusal:
            others.append(refusal.data["reason"])

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(add)
        await until(lambda: len(others) == 16)
        assert others == ["still_at_work"] * 16
        impatient = single_use(store, wait_seconds=0.01)(tool)
        with anyio.fail_after(SECONDS):
            assert await refused(impatient, asked, ADA) == (types.REQUEST_TIMEOUT, "still_at_work")
        group.start_soon(deliver, handler, bystander, BOB)  # another round is not crowded out
        over.set()
    assert others[16:] == [result("Ada, asked 1 times")] * 4
    assert sorted(tool.effects) == ["Ada", "Bob"]


def keyed(key: object) -> Params:
    meta: Any = {CALL_KEY: key}
    return params().model_copy(update={"meta": meta})


def test_a_key_is_a_uuid_of_version_7_that_says_when_it_was_made() -> None:
    before = time.time()
    text = new_call_key()
    found = call_key_of(modern(), keyed(text))
    assert found is not None
    assert uuid.UUID(text).version == 7
    assert uuid.UUID(text).variant == uuid.RFC_4122
    assert before - 0.001 <= found.made <= time.time() + 0.001
    exact = call_key_of(modern(), keyed(key_made(5.0)))
    assert exact is not None
    assert exact.made == 5.001, "a store that was made within its millisecond is newer"
    assert len({new_call_key() for _ in range(100)}) == 100
    assert call_key_of(of_session(FakeSession(None), modern=False), keyed(new_call_key())) is None


@pytest.mark.parametrize(
    "key",
    [
        7,
        "",
        "call-1",
        str(uuid.UUID(int=1, version=4)),
        "0197C0F2-0000-7000-8000-00000000000A",
        ["a"],
    ],
)
def test_what_is_no_key_is_refused(key: object) -> None:
    with pytest.raises(MCPError, match="not a UUID of version 7") as refusal:
        call_key_of(modern(), keyed(key))
    assert refusal.value.code == types.INVALID_PARAMS


@pytest.mark.parametrize(("seconds", "method"), [(-700.0, "tools/call"), (700.0, "prompts/get")])
async def test_a_key_too_old_or_ahead_is_refused(seconds: float, method: str, store: Store) -> None:
    tool = Tool()
    ctx = replace(modern(), method=method)
    expired = await refused(single_use(store)(tool), ctx=ctx, key=key_made(time.time() + seconds))
    assert expired == (types.INVALID_PARAMS, "call_key_expired")
    assert tool.entered == 0
