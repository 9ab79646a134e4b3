"""The two files to read first: each main as a process, and each handler through the in-memory client."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.examples import basic, multiround
from mrtr_options.examples.expect import accept, as_expected, connect
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

KEYS = [b"a key that all instances share...", b"the key before it, still accepted"]
Round = types.CallToolResult | types.InputRequiredResult


async def play(
    server: Server[Any],
    arguments: dict[str, Any],
    answers: types.InputResponses | None = None,
    state: str | None = None,
    *,
    tool: str = "greet",
    asks: bool = True,
    mode: str = LATEST_MODERN_VERSION,
) -> Round:
    """One round on a connection of its own."""
    with anyio.fail_after(SECONDS):
        async with connect(server, ("elicitation",) if asks else (), mode) as client:
            try:
                return await client.session.call_tool(
                    tool,
                    arguments,
                    input_responses=answers,
                    request_state=state,
                    allow_input_required=True,
                )
            except MCPError as error:
                refusal = error
    raise refusal  # outside, where the client's task group does not wrap it


async def greet(answer: types.InputResponse | None = None, **options: Any) -> Round:
    answers = None if answer is None else {"name": answer}
    return await play(basic.server, {"word": "Hello"}, answers, **options)


def says(result: Round) -> tuple[str, bool | None]:
    assert isinstance(result, types.CallToolResult)
    [block] = result.content
    assert isinstance(block, types.TextContent)
    return block.text, result.is_error


def asks(result: Round) -> list[str]:
    assert isinstance(result, types.InputRequiredResult)
    return list(result.input_requests or {})


def state_of(result: Round) -> str:
    assert isinstance(result, types.InputRequiredResult)
    assert result.request_state is not None
    return result.request_state


async def test_the_main_of_basic_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


async def test_the_main_of_multiround_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiround, "tampered", lambda token: token)  # pyright: ignore[reportUnknownLambdaType,reportUnknownArgumentType]
    assert await as_expected(multiround.demonstrate) == 1


# --- basic --------------------------------------------------------------------------------------


async def test_a_missing_answer_is_asked_for_in_every_round() -> None:
    assert asks(await greet()) == ["name"]
    assert asks(await play(basic.server, {"word": "Hello"}, {})) == ["name"]
    assert asks(await play(basic.server, {"word": "Hello"}, {"other": accept(name="Ada")})) == ["name"]


async def test_an_answer_ends_the_call_and_unknown_ones_are_ignored() -> None:
    answers: types.InputResponses = {"name": accept(name="Ada"), "other": accept(name="Eve")}
    assert says(await play(basic.server, {"word": "Hello"}, answers)) == ("Hello, Ada!", False)


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_no_is_an_answer_whatever_content_comes_along(action: Any, word: str) -> None:
    no = types.ElicitResult(action=action, content={"name": "Ada"})
    assert says(await greet(no)) == (f"No greeting: the question 'name' was {word}.", False)


@pytest.mark.parametrize(
    "answer",
    [
        accept(name=7),
        accept(name=""),
        accept(other="Ada"),
        types.ElicitResult(action="accept"),
        types.ListRootsResult(roots=[]),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_naming_the_question(
    answer: types.InputResponse,
) -> None:
    with pytest.raises(MCPError, match="'name' does not fit") as refused:
        await greet(answer)
    assert refused.value.code == types.INVALID_PARAMS
    assert refused.value.data == {"reason": "invalid_answer", "question": "name"}


@pytest.mark.parametrize(("mode", "asks"), [(LATEST_MODERN_VERSION, False), ("legacy", True)])
async def test_a_client_that_cannot_be_asked_is_told_so(mode: str, asks: bool) -> None:
    told = says(await greet(mode=mode, asks=asks))
    assert told == ("No greeting: this client cannot be asked for a name.", True)


@pytest.mark.parametrize("arguments", [{}, {"word": 1}])
async def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(MCPError, match="arguments do not fit") as refused:
        await play(basic.server, arguments)
    assert refused.value.code == types.INVALID_PARAMS


# --- multiround ---------------------------------------------------------------------------


class Tracked:
    """Two instances of the server, sharing the tracker and the keys."""

    def __init__(self) -> None:
        self.tracker: multiround.Tracker = {}
        self.a = multiround.build_server(KEYS, self.tracker)
        self.b = multiround.build_server(KEYS[::-1], self.tracker)

    async def close(
        self,
        instance: Server[Any],
        answers: types.InputResponses | None = None,
        state: str | None = None,
        *,
        item: object = 7,
        **options: Any,
    ) -> Round:
        return await play(instance, {"item": item}, answers, state, tool="close_item", **options)

    async def duplicate(self) -> str:
        """The state after the first answer."""
        return state_of(await self.close(self.a, {"resolution": accept(resolution="duplicate")}))


@pytest.fixture
def tracked() -> Tracked:
    return Tracked()


async def test_two_instances_take_turns(tracked: Tracked) -> None:
    first = await tracked.close(tracked.a)
    assert asks(first) == ["resolution"]
    second = await tracked.close(tracked.b, {"resolution": accept(resolution="duplicate")})
    assert asks(second) == ["original"]
    third = await tracked.close(tracked.a, None, state_of(second))
    assert asks(third) == ["original"]
    last = await tracked.close(tracked.b, {"original": accept(original=3)}, state_of(third))
    assert says(last) == ("Item 7 is closed: duplicate of 3.", False)
    assert tracked.tracker == {7: "duplicate of 3"}


@pytest.mark.parametrize("resolution", ["fixed", "wontfix"])
async def test_only_a_duplicate_asks_for_the_original(tracked: Tracked, resolution: str) -> None:
    result = await tracked.close(tracked.a, {"resolution": accept(resolution=resolution)})
    assert says(result) == (f"Item 7 is closed: {resolution}.", False)
    assert tracked.tracker == {7: resolution}


async def test_a_settled_answer_is_not_changed_by_a_later_one(tracked: Tracked) -> None:
    state = await tracked.duplicate()
    result = await tracked.close(tracked.a, {"resolution": accept(resolution="fixed")}, state)
    assert asks(result) == ["original"]
    assert tracked.tracker == {}


async def test_a_state_that_was_changed_is_refused(tracked: Tracked) -> None:
    state = await tracked.duplicate()
    foreign_server = multiround.build_server([b"another key, of another service.."], {})
    foreign = state_of(
        await play(
            foreign_server,
            {"item": 7},
            {"resolution": accept(resolution="duplicate")},
            tool="close_item",
        )
    )
    bad = [multiround.tampered(state), state[:-4], "", '{"resolution":"duplicate"}', foreign]
    for token in bad:
        with pytest.raises(MCPError, match="Invalid or expired requestState") as refused:
            await tracked.close(tracked.a, {"original": accept(original=3)}, token)
        assert refused.value.code == types.INVALID_PARAMS
    assert tracked.tracker == {}


async def test_a_state_is_good_for_its_item_only(tracked: Tracked) -> None:
    state = await tracked.duplicate()
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        await tracked.close(tracked.a, {"original": accept(original=3)}, state, item=8)
    assert tracked.tracker == {}


async def test_a_state_of_an_older_shape_is_refused(tracked: Tracked) -> None:
    async def older(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return types.InputRequiredResult(request_state='{"reason":"duplicate"}')

    tracked.a.add_request_handler("tools/call", types.CallToolRequestParams, older)
    state = state_of(await tracked.close(tracked.a))
    with pytest.raises(MCPError, match="Invalid or expired requestState"):
        await tracked.close(tracked.b, {"original": accept(original=3)}, state)


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_no_to_either_question_leaves_the_item_open(
    tracked: Tracked, action: Any, word: str
) -> None:
    no = types.ElicitResult(action=action, content={"resolution": "fixed", "original": 3})
    first = await tracked.close(tracked.a, {"resolution": no})
    second = await tracked.close(tracked.a, {"original": no}, await tracked.duplicate())
    for key, result in (("resolution", first), ("original", second)):
        assert says(result) == (f"Item 7 stays open: the question {key!r} was {word}.", False)
    assert tracked.tracker == {}


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("resolution", accept(resolution="done")),
        ("resolution", accept(resolution=["fixed"])),
        ("resolution", types.ElicitResult(action="accept")),
        ("resolution", types.ListRootsResult(roots=[])),
        ("original", accept(original="3")),
        ("original", accept(original=0)),
        ("original", accept(original=True)),
        ("original", accept(original=7)),
        ("original", types.ListRootsResult(roots=[])),
    ],
)
async def test_a_bad_answer_to_either_question_closes_nothing(
    tracked: Tracked, key: str, answer: types.InputResponse
) -> None:
    state = await tracked.duplicate() if key == "original" else None
    with pytest.raises(MCPError, match="does not fit the question") as refused:
        await tracked.close(tracked.a, {key: answer}, state)
    assert refused.value.code == types.INVALID_PARAMS
    assert refused.value.data == {"reason": "invalid_answer", "question": key}
    assert tracked.tracker == {}


@pytest.mark.parametrize(("mode", "asks"), [(LATEST_MODERN_VERSION, False), ("legacy", True)])
async def test_nothing_is_closed_for_a_client_that_cannot_be_asked(
    tracked: Tracked, mode: str, asks: bool
) -> None:
    told = says(await tracked.close(tracked.a, mode=mode, asks=asks))
    assert told == ("Nothing was closed: this client cannot be asked for 'resolution'.", True)
    assert tracked.tracker == {}


@pytest.mark.parametrize("item", ["7", 0, True, None])
async def test_an_item_that_is_no_number_is_refused(tracked: Tracked, item: object) -> None:
    with pytest.raises(MCPError, match="arguments do not fit") as refused:
        await tracked.close(tracked.a, item=item)
    assert refused.value.code == types.INVALID_PARAMS
