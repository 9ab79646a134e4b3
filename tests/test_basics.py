"""The two files to read first: what their handlers do that no main shows."""

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
NO_ELICITATION = types.ListRootsResult(roots=[])
DUPLICATE = accept(resolution="duplicate")


async def greet(
    answers: types.InputResponses | None = None, arguments: dict[str, Any] | None = None, **client: Any
) -> Response:
    """One round of `greet`."""
    request = Request("tools/call", "greet", {"word": "Hello"} if arguments is None else arguments)
    with anyio.fail_after(SECONDS):
        return await play(basic.server, request, answers, **client)


def refuses_the_answer(response: Response, key: str) -> bool:
    assert isinstance(response, MCPError)
    assert f"The answer to {key!r} does not fit" in response.message
    data = {"reason": "invalid_answer", "question": key}
    return (response.code, response.error.data) == (types.INVALID_PARAMS, data)


async def test_a_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


# --- basic --------------------------------------------------------------------------------------


@pytest.mark.parametrize("answers", [None, {}, {"other": accept(name="Ada")}])
async def test_a_missing_answer_is_asked_for_in_every_round(answers: Any) -> None:
    assert seen(await greet(answers)) == "question name: What is your name?"


@pytest.mark.parametrize(
    "answer", [accept(name=7), accept(name=""), accept(other="Ada"), accept(), NO_ELICITATION]
)
async def test_an_answer_that_does_not_fit_is_refused_naming_the_question(
    answer: types.InputResponse,
) -> None:
    assert refuses_the_answer(await greet({"name": answer}), "name")


async def test_an_old_client_is_told_that_it_cannot_be_asked() -> None:
    told = "isError result: No greeting: this client cannot be asked for a name."
    assert seen(await greet(mode="legacy")) == told


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

    async def answered(self, key: str, answer: types.InputResponse) -> Response:
        """The response to an answer to this question."""
        first = key == "resolution"
        asked = None if first else await self.close(self.a, "resolution", DUPLICATE)
        return await self.close(self.a, key, answer, asked)


@pytest.fixture
def tracked() -> Tracked:
    return Tracked()


def carrying(token: str) -> types.InputRequiredResult:
    """A response that handed out this state."""
    return types.InputRequiredResult(request_state=token)


async def test_a_round_without_an_answer_asks_again_and_instances_take_turns(tracked: Tracked) -> None:
    asked = await tracked.answered("resolution", DUPLICATE)
    again = await tracked.close(tracked.b, asked=asked)
    assert seen(again) == "question original: Which item is 7 a duplicate of?"
    last = await tracked.close(tracked.a, "original", accept(original=3), again)
    assert seen(last) == "result: Item 7 is closed: duplicate of 3."
    assert tracked.tracker == {7: "duplicate of 3"}


async def test_only_a_duplicate_asks_for_the_original(tracked: Tracked) -> None:
    result = await tracked.answered("resolution", accept(resolution="wontfix"))
    assert seen(result) == "result: Item 7 is closed: wontfix."
    assert tracked.tracker == {7: "wontfix"}


async def test_a_settled_answer_is_not_changed_by_a_later_one(tracked: Tracked) -> None:
    asked = await tracked.answered("resolution", DUPLICATE)
    result = await tracked.close(tracked.a, "resolution", accept(resolution="fixed"), asked)
    assert seen(result).startswith("question original: ")
    assert tracked.tracker == {}


async def test_a_state_that_this_server_did_not_write_for_this_item_is_refused(tracked: Tracked) -> None:
    async def older(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return carrying('{"reason":"duplicate"}')

    state = state_of(await tracked.answered("resolution", DUPLICATE)) or ""
    stranger = multiround.build_server([b"another key, of another service.."], {})
    foreign = await tracked.close(stranger, "resolution", DUPLICATE)
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
    told = f"result: Item 7 stays open: the question {key!r} was {word}."
    assert seen(await tracked.answered(key, no)) == told
    assert tracked.tracker == {}


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        *(("resolution", accept(resolution=given)) for given in ("done", ["fixed"])),
        *(("original", accept(original=given)) for given in ("3", 0, True, 7)),
        *((key, answer) for key in ("resolution", "original") for answer in (accept(), NO_ELICITATION)),
    ],
)
async def test_a_bad_answer_to_either_question_closes_nothing(
    tracked: Tracked, key: str, answer: types.InputResponse
) -> None:
    assert refuses_the_answer(await tracked.answered(key, answer), key)
    assert tracked.tracker == {}


@pytest.mark.parametrize("client", [{"declares": ()}, {"mode": "legacy"}], ids=["modern", "legacy"])
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
