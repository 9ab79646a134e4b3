"""Four kinds of question: what each kind must survive, beyond what the main shows."""

from __future__ import annotations

import anyio
import mcp_types as types
import pytest

from examples import inputs
from examples.inputs import ANNOUNCE, ANNOUNCED, FILLED_IN, SHARED, VISITED, WRITTEN, Board
from examples.rounds import Declared, Response, play, seen
from tests.bounds import SECONDS

pytestmark = pytest.mark.anyio

NO = types.ElicitResult(action="decline")
TO_APPROVAL: list[types.InputResponses | None] = [
    None,
    {"folders": SHARED, "audience": FILLED_IN},
    {"draft": WRITTEN},
]
"""The answers, round by round, after which the user is sent to the page."""


class Call:
    """One call, whose rounds are played by hand. A client that lacks a kind does not declare it."""

    def __init__(self, lacks: str = "") -> None:
        self.board = Board()
        self._server = inputs.build_server(self.board)
        self._declares: list[Declared] = [each for each in inputs.ALL if each != lacks]
        self.asked: Response | None = None

    async def send(self, *rounds: types.InputResponses | None) -> str:
        """What the last of these rounds brings."""
        response: Response | None = None
        with anyio.fail_after(SECONDS):
            for answers in rounds:
                response = await play(
                    self._server, ANNOUNCE, answers, self.asked, declares=self._declares
                )
                if isinstance(response, types.InputRequiredResult):
                    self.asked = response
        assert response is not None
        return seen(response)

    @property
    def keys(self) -> list[str]:
        """The questions that are open."""
        assert isinstance(self.asked, types.InputRequiredResult)
        return list(self.asked.input_requests or {})


async def test_two_kinds_go_out_together_and_may_be_answered_one_by_one() -> None:
    call = Call()
    open_questions: list[list[str]] = []
    one_by_one: list[types.InputResponses | None] = [
        None,
        {"audience": FILLED_IN},
        {"folders": SHARED},
        {"draft": WRITTEN},
    ]
    for answers in one_by_one:
        await call.send(answers)
        open_questions.append(call.keys)
    assert open_questions == [["folders", "audience"], ["folders"], ["draft"], ["approval"]]
    asked = call.asked
    await call.send(None)
    assert isinstance(asked, types.InputRequiredResult)
    assert isinstance(call.asked, types.InputRequiredResult)
    # Else the address would change under the user's hands, and the answer would never be taken.
    assert call.asked.input_requests == asked.input_requests
    call.board.approved.add(inputs.number_of(asked))
    assert await call.send({"approval": VISITED}) == ANNOUNCED
    assert list(call.board.published.values()) == [inputs.SENTENCE]


@pytest.mark.parametrize(
    ("lacks", "rounds", "said"),
    [("elicitation", 1, "cannot be asked."), ("sampling", 2, "has no model to write with.")],
)
async def test_a_kind_that_was_not_declared_is_not_asked(lacks: str, rounds: int, said: str) -> None:
    told = f"isError result: This client {said}"
    assert await Call(lacks).send(*TO_APPROVAL[:rounds]) == told


@pytest.mark.parametrize(
    ("key", "rounds", "answers"),
    [
        ("folders", 1, {"folders": VISITED, "audience": FILLED_IN}),
        ("audience", 1, {"folders": SHARED, "audience": WRITTEN}),
        ("draft", 2, {"draft": SHARED}),
        ("approval", 3, {"approval": SHARED}),
    ],
)
async def test_an_answer_of_another_kind_is_refused_with_its_question_named(
    key: str, rounds: int, answers: types.InputResponses
) -> None:
    said = await Call().send(*TO_APPROVAL[:rounds], answers)
    assert said.startswith(f"error -32602: The answer to {key!r} does not fit")


@pytest.mark.parametrize(
    ("key", "rounds"), [("audience", TO_APPROVAL[:1]), ("approval", TO_APPROVAL)], ids=str
)
async def test_no_ends_the_call_and_nothing_goes_out(
    key: str, rounds: list[types.InputResponses | None]
) -> None:
    call = Call()
    said = await call.send(*rounds, {"folders": SHARED, key: NO})
    assert said == f"result: The question {key!r} was declined."
    assert call.board.published == {}
