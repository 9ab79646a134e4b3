"""The examples as programs, and what `basic`, `multiround` and `carriers` do that no main shows."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server import Server
from mcp_types import ElicitResult

from examples import basic, carriers, multiround
from examples.expect import as_expected
from examples.rounds import Request, Response, accept, connect, play, seen, state_of, tampered
from tests.bounds import SECONDS
from tests.commands import called

FOLDER = Path(__file__).parents[1] / "examples"
EXAMPLES = ("basic", "multiround", "carriers", "inputs", "client_dual_path", "index_directory")

KEYS = [b"a key that all instances share...", b"the key before it, still accepted"]
REFUSED = "error -32602: Invalid or expired requestState"
ARGUMENTS = "error -32602: The arguments do not fit"
BAD = "error -32602: The answer to {!r} does not fit"
DECLINED, CANCELLED = ElicitResult(action="decline"), ElicitResult(action="cancel")
NO_ELICITATION = types.ListRootsResult(roots=[])
DUPLICATE = accept(resolution="duplicate")


# --- as programs --------------------------------------------------------------------------------


@pytest.mark.parametrize(("flag", "code"), [("--help", 0), ("--nope", 2)])
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_has_help_and_refuses_an_unknown_flag_in_one_line(
    example: str,
    flag: str,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(FOLDER / f"{example}.py")
    monkeypatch.setattr(sys, "argv", [file, flag])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(file, run_name="__main__")
    assert ended.value.code == code
    out, error = capsys.readouterr()
    assert (f"usage: python -m examples.{example}" in out) == (code == 0)
    assert error.count("\n") == (0 if code == 0 else 1)


@pytest.mark.slow
@pytest.mark.parametrize("example", ["basic", "multiround", "carriers", "inputs"])
def test_a_demonstration_sees_what_it_expects_and_no_log_line_is_in_it(
    example: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = called(f"python -m examples.{example}")
    told = capsys.readouterr()
    assert (code, told.err) == (0, ""), told.out
    assert "  with the answer " in told.out
    assert max(len(line) for line in told.out.splitlines()) <= 100
    if example in ("multiround", "carriers"):
        assert "Invalid or expired requestState" in told.out


@pytest.mark.anyio
async def test_a_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(basic.SCENES, "A wrong expectation", (accept(name="Ada"), "result: Bye."))
    assert await as_expected(basic.demonstrate) == 1


# --- basic --------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answers", "arguments", "says"),
    [
        *((none, {}, "question name: What is") for none in ({}, {"other": accept(name="Ada")})),
        *(
            ({"name": bad}, {}, BAD.format("name"))
            for bad in (accept(name=""), accept(), NO_ELICITATION)
        ),
        (None, {"word": 1}, ARGUMENTS),
    ],
)
async def test_basic_asks_for_what_is_missing_and_refuses_what_does_not_fit(
    answers: Any, arguments: dict[str, Any], says: str
) -> None:
    request = Request("tools/call", "greet", {"word": "Hello"} | arguments)
    with anyio.fail_after(SECONDS):
        assert seen(await play(basic.server, request, answers)).startswith(says)


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


@pytest.mark.anyio
async def test_a_round_without_an_answer_asks_again_and_instances_take_turns() -> None:
    tracked = Tracked()
    asked = await tracked.answered("resolution", DUPLICATE)
    again = await tracked.close(tracked.b, asked=asked)
    assert seen(again) == "question original: Which item is 7 a duplicate of?"
    changed = await tracked.close(tracked.a, "resolution", accept(resolution="fixed"), again)
    last = await tracked.close(tracked.a, "original", accept(original=3), changed)
    assert seen(last) == "result: Item 7 is closed: duplicate of 3."
    assert tracked.tracker == {7: "duplicate of 3"}


@pytest.mark.anyio
async def test_a_state_that_this_server_did_not_write_for_this_item_is_refused() -> None:
    def carrying(token: str) -> types.InputRequiredResult:
        return types.InputRequiredResult(request_state=token)

    async def older(ctx: Any, params: types.CallToolRequestParams) -> types.InputRequiredResult:
        return carrying('{"reason":"duplicate"}')

    tracked = Tracked()
    state = state_of(await tracked.answered("resolution", DUPLICATE)) or ""
    stranger = multiround.build_server([b"another key, of another service.."], {})
    foreign = await tracked.close(stranger, "resolution", DUPLICATE)
    tracked.b.add_request_handler("tools/call", types.CallToolRequestParams, older)
    bad = [carrying(tampered(state)), carrying('{"resolution":"duplicate"}'), foreign]
    bad.append(await tracked.close(tracked.b))
    for asked in bad:
        assert seen(await tracked.close(tracked.a, "original", accept(original=3), asked)) == REFUSED
    other = await tracked.close(tracked.a, "original", accept(original=3), carrying(state), item=8)
    assert seen(other) == REFUSED
    assert tracked.tracker == {}


OPEN = "result: Item 7 stays open: the question {!r} was {}."


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("key", "answer", "says"),
    [
        ("resolution", accept(resolution="wontfix"), "result: Item 7 is closed: wontfix."),
        *(
            (key, answer, OPEN.format(key, word))
            for key in ("resolution", "original")
            for answer, word in ((DECLINED, "declined"), (CANCELLED, "cancelled"))
        ),
        *(
            ("resolution", accept(resolution=bad), BAD.format("resolution"))
            for bad in ("done", ["fixed"])
        ),
        *(("original", accept(original=bad), BAD.format("original")) for bad in ("3", 0, True, 7)),
        *((key, NO_ELICITATION, BAD.format(key)) for key in ("resolution", "original")),
    ],
)
async def test_each_answer_to_either_question(key: str, answer: types.InputResponse, says: str) -> None:
    tracked = Tracked()
    assert seen(await tracked.answered(key, answer)).startswith(says)
    assert tracked.tracker == ({7: "wontfix"} if "is closed" in says else {})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("client", "says"),
    [
        *(({"item": item}, ARGUMENTS) for item in ("7", 0, True, None)),
        *((client, "isError result: Nothing was") for client in ({"declares": ()}, {"mode": "legacy"})),
    ],
)
async def test_nothing_is_closed_that_is_no_item_or_for_a_client_that_cannot_be_asked(
    client: dict[str, Any], says: str
) -> None:
    tracked = Tracked()
    assert seen(await tracked.close(tracked.a, **client)).startswith(says)
    assert tracked.tracker == {}


# --- carriers -----------------------------------------------------------------------------------

SPRINGFIELD = carriers.packing("Springfield")
TOKYO = carriers.weather_in("Tokyo, Japan")


@pytest.mark.anyio
async def test_prompts_and_templates_are_listed() -> None:
    async with connect(carriers.build_server([])) as client:
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == [carriers.PROMPT]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == [carriers.TEMPLATE]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("asks", "key", "bad", "good", "brings"),
    [
        (SPRINGFIELD, "place", {"place": "Nowhere"}, {"place": "Springfield, Missouri"}, "prompt: What"),
        (TOKYO, "units", {"units": "kelvin"}, {"units": "metric"}, "content: Tokyo"),
    ],
    ids=["prompt", "resource"],
)
async def test_a_prompt_and_a_resource_take_a_no_and_a_corrected_answer(
    asks: Request, key: str, bad: dict[str, str], good: dict[str, str], brings: str
) -> None:
    reads: carriers.Reads = []
    server = carriers.build_server(reads)
    with anyio.fail_after(SECONDS):
        asked = await play(server, asks)
        no = (accept(**bad), BAD.format(key)), (DECLINED, "declined"), (CANCELLED, "cancelled")
        for answer, says in no:
            assert says in seen(await play(server, asks, {key: answer}, asked))
        assert reads == []
        assert seen(await play(server, asks, {key: accept(**good)}, asked)).startswith(brings)
    assert len(reads) == (key == "units")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("asks", "client", "says"),
    [
        (carriers.packing("Tokyo"), {}, "prompt: What do I pack for Tokyo, Japan? Today's sky: clear."),
        (carriers.packing("Atlantis"), {}, "error -32602: Unknown location"),
        (carriers.weather_in("Atlantis"), {}, "error -32602: Unknown resource"),
        *(
            row
            for client in ({"declares": ()}, {"mode": "legacy"})
            for row in (
                (
                    SPRINGFIELD,
                    client,
                    "error -32602: 'Springfield' is ambiguous. Call again with one of",
                ),
                (TOKYO, client, "content: Tokyo, Japan: 19 °C, clear. (metric assumed"),
            )
        ),
    ],
)
async def test_a_prompt_or_a_resource_that_asks_nothing(
    asks: Request, client: dict[str, Any], says: str
) -> None:
    with anyio.fail_after(SECONDS):
        assert seen(await play(carriers.build_server([]), asks, **client)).startswith(says)


@pytest.mark.anyio
async def test_the_state_of_a_resource_is_sealed() -> None:
    with anyio.fail_after(SECONDS):
        state = state_of(await play(carriers.build_server([]), TOKYO)) or ""
    assert state.startswith("v1.")
    assert "units" not in state
