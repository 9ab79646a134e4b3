"""The two files to read first: what their handlers do with what no main shows."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server

from examples import basic, multiround
from examples.expect import as_expected
from examples.rounds import Request, Response, accept, play, seen, state_of, tampered
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

KEYS = [b"a key that all instances share...", b"the key before it, still accepted"]
REFUSED = "error -32602: Invalid or expired requestState"
CANNOT_BE_ASKED = pytest.mark.parametrize(
    "client", [{"declares": ()}, {"mode": "legacy"}], ids=["modern", "legacy"]
)


async def greet(
    answers: types.InputResponses | None = None, arguments: dict[str, Any] | None = None, **client: Any
) -> Response:
    """One round of `greet`."""
    request = Request("tools/call", "greet", {"word": "Hello"} if arguments is None else arguments)
    with anyio.fail_after(SECONDS):
        return await play(basic.server, request, answers, **client)


def bad_answer(response: Response) -> str:
    """The question whose answer is refused."""
    assert isinstance(response, MCPError)
    assert (response.code, response.error.data["reason"]) == (types.INVALID_PARAMS, "invalid_answer")
    assert f"The answer to {response.error.data['question']!r} does not fit" in response.message
    return response.error.data["question"]


async def test_a_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


# --- basic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [None, {}, {"other": accept(name="Ada")}])
async def test_a_missing_answer_is_asked_for_in_every_round(answers: Any) -> None:
    assert seen(await greet(answers)) == "question name: What is your name?"


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
async def test_no_is_an_answer_whatever_content_comes_along(action: Any, word: str) -> None:
    no = types.ElicitResult(action=action, content={"name": "Ada"})
    assert seen(await greet({"name": no})) == f"result: No greeting: the question 'name' was {word}."


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
    assert bad_answer(await greet({"name": answer})) == "name"


@CANNOT_BE_ASKED
async def test_a_client_that_cannot_be_asked_is_told_so(client: dict[str, Any]) -> None:
    told = "isError result: No greeting: this client cannot be asked for a name."
    assert seen(await greet(**client)) == told


@pytest.mark.parametrize("arguments", [{}, {"word": 1}])
async def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any]) -> None:
    assert seen(await greet(None, arguments)).startswith("error -32602: The arguments do not fit")


# --- multiround ---------------------------------------------------------------------------------


class Tracked:
    """Two instances of the server, sharing the tracker and the keys."""

    def __init__(self) -> None:
        self.tracker: multiround.Tracker = {}
        self.a = multiround.build_server(KEYS, self.tracker)
        self.b = multiround.build_server(KEYS[::-1], self.tracker)

    async def close(
        self,
        instance: Server[Any],
        key: str = "",
        answer: types.InputResponse | None = None,
        asked: Response | None = None,
        *,
        item: object = 7,
        **client: Any,
    ) -> Response:
        """One round of `close_item`."""
        request = Request("tools/call", multiround.TOOL, {"item": item})
        with anyio.fail_after(SECONDS):
            return await play(instance, request, {key: answer} if answer else None, asked, **client)

    async def duplicate(self, instance: Server[Any] | None = None) -> Response:
        """The response to the first answer."""
        return await self.close(instance or self.a, "resolution", accept(resolution="duplicate"))


@pytest.fixture
def tracked() -> Tracked:
    return Tracked()


def carrying(token: str) -> types.InputRequiredResult:
    """A response that handed out this state."""
    return types.InputRequiredResult(request_state=token)


async def test_a_round_without_an_answer_asks_again_and_instances_take_turns(tracked: Tracked) -> None:
    again = await tracked.close(tracked.b, asked=await tracked.duplicate())
    assert seen(again) == "question original: Which item is 7 a duplicate of?"
    last = await tracked.close(tracked.a, "original", accept(original=3), again)
    assert seen(last) == "result: Item 7 is closed: duplicate of 3."
    assert tracked.tracker == {7: "duplicate of 3"}


@pytest.mark.parametrize("resolution", ["fixed", "wontfix"])
async def test_only_a_duplicate_asks_for_the_original(tracked: Tracked, resolution: str) -> None:
    result = await tracked.close(tracked.a, "resolution", accept(resolution=resolution))
    assert seen(result) == f"result: Item 7 is closed: {resolution}."
    assert tracked.tracker == {7: resolution}


async def test_a_settled_answer_is_not_changed_by_a_later_one(tracked: Tracked) -> None:
    asked = await tracked.duplicate()
    result = await tracked.close(tracked.a, "resolution", accept(resolution="fixed"), asked)
    assert seen(result).startswith("question original: ")
    assert tracked.tracker == {}


async def test_a_state_that_this_server_did_not_write_for_this_item_is_refused(tracked: Tracked) -> None:
    async def older(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return carrying('{"reason":"duplicate"}')

    state = state_of(await tracked.duplicate()) or ""
    foreign = await tracked.duplicate(
        multiround.build_server([b"another key, of another service.."], {})
    )
    tracked.b.add_request_handler("tools/call", types.CallToolRequestParams, older)
    bad = [*map(carrying, (tampered(state), state[:-4], "", '{"resolution":"duplicate"}')), foreign]
    bad.append(await tracked.close(tracked.b))
    for asked in bad:
        assert seen(await tracked.close(tracked.a, "original", accept(original=3), asked)) == REFUSED
    other = await tracked.close(tracked.a, "original", accept(original=3), carrying(state), item=8)
    assert seen(other) == REFUSED
    assert tracked.tracker == {}


@pytest.mark.parametrize(("action", "word"), [("decline", "declined"), ("cancel", "cancelled")])
@pytest.mark.parametrize("key", ["resolution", "original"])
async def test_no_to_either_question_leaves_the_item_open(
    tracked: Tracked, key: str, action: Any, word: str
) -> None:
    no = types.ElicitResult(action=action, content={"resolution": "fixed", "original": 3})
    asked = await tracked.duplicate() if key == "original" else None
    result = await tracked.close(tracked.a, key, no, asked)
    assert seen(result) == f"result: Item 7 stays open: the question {key!r} was {word}."
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
    asked = await tracked.duplicate() if key == "original" else None
    assert bad_answer(await tracked.close(tracked.a, key, answer, asked)) == key
    assert tracked.tracker == {}


@CANNOT_BE_ASKED
async def test_nothing_is_closed_for_a_client_that_cannot_be_asked(
    tracked: Tracked, client: dict[str, Any]
) -> None:
    told = "isError result: Nothing was closed: this client cannot be asked for 'resolution'."
    assert seen(await tracked.close(tracked.a, **client)) == told
    assert tracked.tracker == {}


@pytest.mark.parametrize("item", ["7", 0, True, None])
async def test_an_item_that_is_no_number_is_refused(tracked: Tracked, item: object) -> None:
    result = seen(await tracked.close(tracked.a, item=item))
    assert result.startswith("error -32602: The arguments do not fit")
