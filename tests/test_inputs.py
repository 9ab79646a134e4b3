"""Four kinds of question: the main as a process, and what each kind must survive."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError

from mrtr_options.examples import inputs
from mrtr_options.examples.expect import Declared, as_expected, connect
from mrtr_options.examples.inputs import ANNOUNCED, FILLED_IN, SHARED, VISITED, WRITTEN, Board
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio


async def test_the_main_fails_on_a_surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "ROUND_THREE", "question approval: Sign here.")
    assert await as_expected(inputs.demonstrate) == 1


class Rounds:
    """One call, whose rounds are played by hand. A client that lacks a kind does not declare it."""

    def __init__(self, board: Board, *, lacks: str = "") -> None:
        declares: list[Declared] = [each for each in inputs.ALL if each != lacks]
        self.client = connect(inputs.build_server(board), declares)
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
        return f"{'isError result' if result.is_error else 'result'}: {block.text}"


async def test_two_kinds_go_out_together_and_may_be_answered_one_by_one() -> None:
    board = Board()
    call = Rounds(board)
    with anyio.fail_after(SECONDS):
        async with call.client:
            assert list(await call.send()) == ["folders", "audience"]
            assert list(await call.send({"audience": FILLED_IN})) == ["folders"]
            assert list(await call.send({"folders": SHARED})) == ["draft"]
            asked = await call.send({"draft": WRITTEN})
            number = asked["approval"].params.url.removeprefix(f"{inputs.PAGE}/")
            assert list(await call.send()) == ["approval"]
            board.approved.add(number)
            assert await call.send({"approval": VISITED}) == ANNOUNCED
    assert list(board.published.values()) == [inputs.SENTENCE]


async def test_the_number_of_the_draft_is_the_same_in_every_round() -> None:
    """Else the address would change under the user's hands, and the answer would never be taken."""
    call = Rounds(Board())
    with anyio.fail_after(SECONDS):
        async with call.client:
            await call.send()
            await call.send({"folders": SHARED, "audience": FILLED_IN})
            first = await call.send({"draft": WRITTEN})
            assert await call.send() == first


async def test_going_is_not_approving() -> None:
    board = Board()
    call = Rounds(board)
    with anyio.fail_after(SECONDS):
        async with call.client:
            await call.send()
            await call.send({"folders": SHARED, "audience": FILLED_IN})
            await call.send({"draft": WRITTEN})
            assert await call.send({"approval": VISITED}) == inputs.NOT_APPROVED
    assert board.published == {}


@pytest.mark.parametrize(
    ("lacks", "said"),
    [
        ("roots", inputs.NO_FOLDERS),
        ("elicitation", "isError result: This client cannot be asked."),
        ("sampling", "isError result: This client has no model to write with."),
    ],
)
async def test_a_kind_that_was_not_declared_is_not_asked(lacks: str, said: str) -> None:
    call = Rounds(Board(), lacks=lacks)
    with anyio.fail_after(SECONDS):
        async with call.client:
            seen = await call.send()
            if lacks == "sampling":
                seen = await call.send({"folders": SHARED, "audience": FILLED_IN})
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
                    await call.send({"folders": VISITED, "audience": FILLED_IN})
                if kind == "form":
                    await call.send({"folders": SHARED, "audience": WRITTEN})
                await call.send({"folders": SHARED, "audience": FILLED_IN})
                if kind == "sampling":
                    await call.send({"draft": SHARED})
                await call.send({"draft": WRITTEN})
                await call.send({"approval": SHARED})
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
                seen = await call.send({"folders": SHARED, "audience": no})
            else:
                await call.send({"folders": SHARED, "audience": FILLED_IN})
                await call.send({"draft": WRITTEN})
                seen = await call.send({"approval": no})
    assert seen == f"result: Nothing was announced: no answer to {key!r}."
    assert board.published == {}
