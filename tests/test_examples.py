"""Tests of the examples: as programs, and in the cases that their mains do not show."""

import inspect
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp_types import ElicitResult

import mrtr_options.basic
from examples import basic, business_key, carriers, multiround
from examples.client_dual_path import PREFERENCES, App, connect
from examples.expect import as_expected
from examples.printed_rounds import Request, Response, accept, play, seen
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger
from tests.bounds import SECONDS
from tests.commands import REPOSITORY, called

EXAMPLES = (
    "basic",
    "multiround",
    "carriers",
    "inputs",
    "client_dual_path",
    "index_directory",
    "business_key",
)

SPRINGFIELD = carriers.packing("Springfield")
TOKYO = carriers.weather_in("Tokyo, Japan")
KEYS = [b"a key that all instances share...", b"the key before it, still accepted"]
REFUSED = "error -32602: Invalid or expired requestState"
ARGUMENTS = "error -32602: The arguments do not fit"
BAD = "error -32602: The answer to {!r} does not fit"
DECLINED = ElicitResult(action="decline")
CANCELLED = ElicitResult(action="cancel")
NO_ELICITATION = types.ListRootsResult(roots=[])
DUPLICATE = accept(resolution="duplicate")


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--nope", 2)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_help_and_refuses_an_unknown_flag_in_one_line(
    example: str, flag: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(f"python -m examples.{example} {flag}") == code
    out, error = capsys.readouterr()
    assert (f"usage: python -m examples.{example}" in out) == (code == 0)
    assert error.count("\n") == (0 if code == 0 else 1)


def test_an_installed_package_says_where_its_examples_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(mrtr_options.basic, "CHECKOUT", tmp_path)
    with pytest.raises(SystemExit, match="2"):
        mrtr_options.basic.run_example("basic")
    assert "clone the repository" in capsys.readouterr().err


DEMONSTRATIONS = {
    "basic": "  with the answer ",
    "multiround": "Invalid or expired requestState",
    "carriers": "Invalid or expired requestState",
    "inputs": "  with the answer ",
    "business_key": "\nJ      2 ",
    "client_dual_path": "  call.json",
    "client_dual_path --mrtr-only": "This tool asks its user, and this client cannot be asked.",
}
"""The examples, and a text in their output."""


@pytest.mark.parametrize(
    ("module", "example"), [("basic", "basic"), ("basic_multiround", "multiround")]
)
def test_the_package_runs_the_two_examples_to_read_first(
    module: str, example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert called(f"python -m mrtr_options.{module}") == 0
    assert DEMONSTRATIONS[example] in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("example", DEMONSTRATIONS)
def test_a_demonstration_sees_what_it_expects_and_no_log_line_is_in_it(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = called(f"python -m examples.{example}")
    told = capsys.readouterr()
    assert code == 0, told.out
    assert told.err == "", told.out
    assert DEMONSTRATIONS[example] in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 100


@pytest.mark.slow
def test_the_page_shows_how_each_style_passes_the_business_key_and_what_that_comes_to(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (REPOSITORY / "docs" / "USING.md").read_text(encoding="utf-8")
    _, section = page.split("## The business key in each style\n")
    section, _ = section.split("\n## ", 1)
    ((command, printed),) = re.findall(r"^\$ (.+)\n((?:.*\n)*?)```", section, re.MULTILINE)
    rows = re.findall(r"^\| ([A-Z]).*? \| `(.*?)`", section, re.MULTILINE)
    assert "".join(style for style, _ in rows) == "EFGHJK"
    for style, effect in rows:
        handler = {"K": "pay_l"}.get(style, f"pay_{style.lower()}")
        assert f"    {effect}\n" in inspect.getsource(vars(business_key)[handler])
    assert called(command) == 0
    assert capsys.readouterr().out == printed


@pytest.mark.anyio
async def test_a_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


FIRST = ("resolution", ())
SECOND = ("original", (DUPLICATE,))
OPEN = "result: Item 7 stays open: the question {!r} was {}."
CANNOT_BE_ASKED: tuple[dict[str, Any], ...] = ({"declares": ()}, {"mode": "legacy"})


def closing(item: object) -> Request:
    """Make a request of `multiround`."""
    return Request("tools/call", multiround.TOOL, {"item": item})


CALLS: list[tuple[Request, Sequence[types.InputResponse], str]] = [
    *(
        (basic.HELLO, [bad], BAD.format("name"))
        for bad in (accept(name=""), accept(), NO_ELICITATION)
    ),
    (Request("tools/call", "greet", {"word": 1}), [], ARGUMENTS),
    (closing(7), [accept(resolution="wontfix")], "result: Item 7 is closed: wontfix."),
    *(
        (closing(7), [*before, answer], says)
        for key, before in (FIRST, SECOND)
        for answer, says in (
            (DECLINED, OPEN.format(key, "declined")),
            (CANCELLED, OPEN.format(key, "cancelled")),
            (NO_ELICITATION, BAD.format(key)),
        )
    ),
    *(
        (closing(7), [accept(resolution=bad)], BAD.format("resolution"))
        for bad in ("done", ["fixed"])
    ),
    *(
        (closing(7), [DUPLICATE, accept(original=bad)], BAD.format("original"))
        for bad in ("3", 0, True, 7)
    ),
    *((closing(item), [], ARGUMENTS) for item in ("7", 0, True, None)),
    *(
        (asks, [no], f"error -32602: No lookup was made: the question {key!r} was {said}.")
        for asks, key in ((SPRINGFIELD, "place"), (TOKYO, "units"))
        for no, said in ((DECLINED, "declined"), (CANCELLED, "cancelled"))
    ),
    (carriers.packing("Atlantis"), [], "error -32602: Unknown location"),
    (carriers.weather_in("Atlantis"), [], "error -32602: Unknown resource"),
]
"""Calls: the first request, the user's answers in turn, and the begin of the last response."""


async def told(request: Request, answers: Sequence[types.InputResponse], **client: Any) -> str:
    """Play a call and return its end; check that an item is closed only if the end says so."""
    tracker: multiround.Tracker = {}
    server: Server[Any] = carriers.build_server([])
    if request.method == "tools/call":
        is_basic = request.name == "greet"
        server = basic.server if is_basic else multiround.build_server(KEYS, tracker)
    with anyio.fail_after(SECONDS):
        response = await play(server, request, **client)
        for answer in answers:
            assert isinstance(response, types.InputRequiredResult)
            (key,) = response.input_requests or {}
            response = await play(server, request, {key: answer}, response, **client)
    said = seen(response)
    assert bool(tracker) == said.startswith("result: Item 7 is closed")
    return said


@pytest.mark.anyio
@pytest.mark.parametrize(("asks", "answers", "says"), CALLS)
async def test_a_call_ends_as_its_answers_say(
    asks: Request, answers: Sequence[types.InputResponse], says: str
) -> None:
    assert (await told(asks, answers)).startswith(says)


@pytest.mark.anyio
@pytest.mark.parametrize("client", CANNOT_BE_ASKED)
@pytest.mark.parametrize(
    ("asks", "says"),
    [
        (closing(7), "isError result: Nothing was closed"),
        (SPRINGFIELD, "error -32602: 'Springfield' is ambiguous. Call again with one of"),
        (TOKYO, "content: Tokyo, Japan: 19 °C, clear. (metric assumed"),
    ],
)
async def test_a_client_that_cannot_be_asked_is_told_what_to_do(
    asks: Request, says: str, client: dict[str, Any]
) -> None:
    assert (await told(asks, [], **client)).startswith(says)


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


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.anyio
async def test_a_form_the_user_cannot_fill_in_is_cancelled_in_both_eras(mode: str) -> None:
    ledger = MemoryLedger()
    server = load(option_named("A").path, Settings(ledger))
    app = App({"place": "Springfield, Illinois"})
    with anyio.fail_after(SECONDS):
        async with connect(server, app, mode=mode) as client:
            text = await app.weather(client, "Springfield")
    assert text == "No lookup was made: the question 'units' was cancelled."
    assert "bill" not in [effect.kind for effect in await ledger.effects()]


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
