"""Four kinds of question: the main as a process, and what each kind must survive."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.examples import inputs as inputs
from mrtr_options.examples.inputs import ANNOUNCED, App, Board
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


@pytest.mark.slow
def test_the_main_sees_what_it_expects() -> None:
    ran = subprocess.run(
        [sys.executable, "-X", "utf8", "-m", "mrtr_options.examples.inputs"],
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert max(len(line) for line in ran.stdout.splitlines()) <= 100
    assert "SURPRISE" not in ran.stdout


async def test_the_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "QUESTIONS", [*inputs.QUESTIONS[:3], "address: Sign here."])
    assert await inputs.main() == 1


class Rounds:
    """One call, whose rounds are played by hand. A client that lacks a kind does not declare it."""

    def __init__(self, board: Board, *, lacks: str = "") -> None:
        app = App(board)
        self.client = Client(
            inputs.build_server(board),
            mode=LATEST_MODERN_VERSION,
            elicitation_callback=None if lacks == "elicitation" else app.elicit,
            sampling_callback=None if lacks == "sampling" else app.sample,
            list_roots_callback=None if lacks == "roots" else app.list_roots,
        )
        self.asked: types.InputRequiredResult | None = None

    async def send(self, answers: types.InputResponses | None = None) -> Any:
        """One round: the text that ends the call, or its questions by key."""
        result = await self.client.session.call_tool(
            inputs.TOOL,
            {"version": "2"},
            input_responses=answers,
            request_state=self.asked.request_state if self.asked else None,
            allow_input_required=True,
        )
        if isinstance(result, types.InputRequiredResult):
            self.asked = result
            return result.input_requests
        (block,) = result.content
        assert isinstance(block, types.TextContent)
        return block.text


FOLDERS = types.ListRootsResult(roots=[])
AUDIENCE = types.ElicitResult(action="accept", content={"audience": "users"})
DRAFT = types.CreateMessageResult(
    role="assistant", content=types.TextContent(text="Version 2 is here, and it is quick."), model="m"
)
WENT = types.ElicitResult(action="accept")


async def test_two_kinds_go_out_together_and_may_be_answered_one_by_one() -> None:
    board = Board()
    call = Rounds(board)
    with anyio.fail_after(SECONDS):
        async with call.client:
            assert list(await call.send()) == ["folders", "audience"]
            assert list(await call.send({"audience": AUDIENCE})) == ["folders"]
            assert list(await call.send({"folders": FOLDERS})) == ["draft"]
            asked = await call.send({"draft": DRAFT})
            number = asked["approval"].params.url.removeprefix(f"{inputs.PAGE}/")
            assert list(await call.send()) == ["approval"]
            board.approved.add(number)
            assert await call.send({"approval": WENT}) == ANNOUNCED
    assert list(board.published.values()) == [ANNOUNCED.removeprefix("Announced: ")]


async def test_the_number_of_the_draft_is_the_same_in_every_round() -> None:
    """Else the address would change under the user's hands, and the answer would never be taken."""
    call = Rounds(Board())
    with anyio.fail_after(SECONDS):
        async with call.client:
            await call.send()
            await call.send({"folders": FOLDERS, "audience": AUDIENCE})
            first = await call.send({"draft": DRAFT})
            assert await call.send() == first


async def test_going_is_not_approving() -> None:
    board = Board()
    call = Rounds(board)
    with anyio.fail_after(SECONDS):
        async with call.client:
            await call.send()
            await call.send({"folders": FOLDERS, "audience": AUDIENCE})
            await call.send({"draft": DRAFT})
            assert await call.send({"approval": WENT}) == inputs.NOT_APPROVED
    assert board.published == {}


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("roots", inputs.NO_FOLDERS),
        ("elicitation", "This client cannot be asked."),
        ("sampling", "This client has no model to write with."),
    ],
)
async def test_a_kind_that_was_not_declared_is_not_asked(lacks: str, said: str) -> None:
    call = Rounds(Board(), lacks=lacks)
    with anyio.fail_after(SECONDS):
        async with call.client:
            seen = await call.send()
            if lacks == "sampling":
                seen = await call.send({"folders": FOLDERS, "audience": AUDIENCE})
    assert seen == said


@pytest.mark.parametrize("kind", ["roots", "form", "sampling", "url"])
async def test_an_answer_of_another_kind_is_refused_with_its_question_named(kind: str) -> None:
    call = Rounds(Board())
    error: MCPError | None = None
    with anyio.fail_after(SECONDS):
        async with call.client:
            try:
                await call.send()
                if kind == "roots":
                    await call.send({"folders": WENT, "audience": AUDIENCE})
                if kind == "form":
                    await call.send({"folders": FOLDERS, "audience": DRAFT})
                await call.send({"folders": FOLDERS, "audience": AUDIENCE})
                if kind == "sampling":
                    await call.send({"draft": FOLDERS})
                await call.send({"draft": DRAFT})
                await call.send({"approval": FOLDERS})
            except MCPError as refusal:
                error = refusal
    named = {"roots": "folders", "form": "audience", "sampling": "draft", "url": "approval"}[kind]
    assert error is not None
    assert error.code == types.INVALID_PARAMS
    assert f"The answer to {named!r} does not fit" in error.message


@pytest.mark.parametrize("key", ["audience", "approval"])
async def test_no_ends_the_call_and_nothing_goes_out(key: str) -> None:
    board = Board()
    call = Rounds(board)
    no = types.ElicitResult(action="decline")
    with anyio.fail_after(SECONDS):
        async with call.client:
            await call.send()
            if key == "audience":
                seen = await call.send({"folders": FOLDERS, "audience": no})
            else:
                await call.send({"folders": FOLDERS, "audience": AUDIENCE})
                await call.send({"draft": DRAFT})
                seen = await call.send({"approval": no})
    assert seen == f"Nothing was announced: no answer to {key!r}."
    assert board.published == {}
