"""Tests of the examples: as programs, and in the cases that their mains do not show."""

import re
from collections.abc import Sequence
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from examples import basic, carriers, multiround
from examples.client_dual_path import PREFERENCES, App, connect
from examples.expect import as_expected
from examples.printed_rounds import Request, Response, accept, play, seen
from tests.bounds import SECONDS
from tests.commands import REPOSITORY, called

KEYS = [b"a key that all instances share...", b"the key before it, still accepted"]
DUPLICATE = accept(resolution="duplicate")


DEMONSTRATIONS = {
    "examples.basic": "  with the answer ",
    "examples.multiround": "Invalid or expired requestState",
    "examples.carriers": "Invalid or expired requestState",
    "examples.inputs": "  with the answer ",
    "examples.client_dual_path": "  call.json",
    "examples.client_dual_path --mrtr-only": (
        "This tool asks its user, and this client cannot be asked."
    ),
    # The two to read first come with the package.
    "mrtr_options.basic": "  with the answer ",
    "mrtr_options.basic_multiround": "Invalid or expired requestState",
}
"""The examples, and a text in their output."""


@pytest.mark.slow
@pytest.mark.parametrize("example", DEMONSTRATIONS)
def test_a_demonstration_sees_what_it_expects_and_no_log_line_is_in_it(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = called(f"python -m {example}")
    told = capsys.readouterr()
    assert code == 0, told.out
    assert told.err == "", told.out
    assert DEMONSTRATIONS[example] in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 100


@pytest.mark.slow
def test_the_page_shows_what_a_business_key_comes_to_in_each_style(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (REPOSITORY / "docs" / "USING.md").read_text(encoding="utf-8")
    ((command, printed),) = re.findall(r"^\$ (.*business_key)\n((?:.*\n)*?)```", page, re.MULTILINE)
    assert called(command) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.anyio
async def test_a_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


def closing(item: object) -> Request:
    """Make a request of `multiround`."""
    return Request("tools/call", multiround.TOOL, {"item": item})


BAD = "error -32602: The answer to {!r} does not fit"
ARGUMENTS = "error -32602: The arguments do not fit"
DECLINED = types.ElicitResult(action="decline")

CALLS: list[tuple[Request, Sequence[types.InputResponse], str]] = [
    (basic.HELLO, [accept(name="")], BAD.format("name")),
    (Request("tools/call", "greet", {"word": 1}), [], ARGUMENTS),
    (closing(7), [accept(resolution="done")], BAD.format("resolution")),
    (closing(7), [DUPLICATE, accept(original=True)], BAD.format("original")),
    (closing(7), [DUPLICATE, accept(original=7)], BAD.format("original")),
    (closing(7), [DUPLICATE, DECLINED], "result: Item 7 stays open: the question 'original' was"),
    (closing(True), [], ARGUMENTS),
    (carriers.packing("Springfield"), [DECLINED], "error -32602: No lookup was made: "),
]
"""Calls: the first request, the user's answers in turn, and the begin of the last response."""


@pytest.mark.anyio
@pytest.mark.parametrize(("asks", "answers", "says"), CALLS)
async def test_a_call_ends_as_its_answers_say(
    asks: Request, answers: Sequence[types.InputResponse], says: str
) -> None:
    tracker: multiround.Tracker = {}
    servers: dict[str, Server[Any]] = {
        "greet": basic.server,
        multiround.TOOL: multiround.build_server(KEYS, tracker),
    }
    server = servers.get(asks.name) or carriers.build_server([])
    with anyio.fail_after(SECONDS):
        response = await play(server, asks)
        for answer in answers:
            assert isinstance(response, types.InputRequiredResult)
            (key,) = response.input_requests or {}
            response = await play(server, asks, {key: answer}, response)
    assert seen(response).startswith(says)
    assert tracker == {}


async def close(
    instance: Server[Any],
    answers: types.InputResponses | None = None,
    asked: Response | None = None,
) -> Response:
    """Play one round of a call that closes item 7."""
    with anyio.fail_after(SECONDS):
        return await play(instance, closing(7), answers, asked)


@pytest.mark.anyio
async def test_a_round_without_an_answer_asks_again_and_instances_take_turns() -> None:
    tracker: multiround.Tracker = {}
    a, b = (multiround.build_server(keys, tracker) for keys in (KEYS, KEYS[::-1]))
    again = await close(b, asked=await close(a, {"resolution": DUPLICATE}))
    assert seen(again) == "question original: Which item is 7 a duplicate of?"
    changed = await close(a, {"resolution": accept(resolution="fixed")}, again)
    last = await close(a, {"original": accept(original=3)}, changed)
    assert seen(last) == "result: Item 7 is closed: duplicate of 3."
    assert tracker == {7: "duplicate of 3"}


REFUSED = "error -32602: Invalid or expired requestState"


@pytest.mark.anyio
async def test_a_genuine_state_of_an_older_version_is_refused() -> None:
    async def older(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return types.InputRequiredResult(request_state='{"reason":"duplicate"}')

    tracker: multiround.Tracker = {}
    server, former = (multiround.build_server(KEYS, tracker) for _ in range(2))
    former.add_request_handler("tools/call", types.CallToolRequestParams, older)
    asked = await close(former)
    assert seen(await close(server, {"original": accept(original=3)}, asked)) == REFUSED
    assert tracker == {}


@pytest.mark.anyio
async def test_mrtr_only_refuses_a_server_that_pushes_to_a_client_without_elicitation() -> None:
    async def pushes(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        answer = await ctx.session.elicit_form("Your PIN?", {"type": "object", "properties": {}})
        raise AssertionError(f"the push was answered: {answer}")

    app = App(PREFERENCES)
    refusal = ""
    with anyio.fail_after(SECONDS):
        rude = Server("rude", version="1", on_call_tool=pushes)
        async with connect(rude, app, mode="legacy", mrtr_only=True) as client:
            try:
                await app.weather(client, "Tokyo")
            except MCPError as error:
                refusal = error.message
    assert refusal == "Elicitation not supported"
    assert app.asked == []
