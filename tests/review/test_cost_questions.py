"""The tool whose questions are counted: every style asks the same and runs what it is said to run."""

from __future__ import annotations

from collections import Counter

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import ClientRequestContext

from mrtr_options.observe import MODES
from mrtr_options.review import cost_questions
from mrtr_options.review.cost_questions import TOOL, replay_server, resolver_server

QUESTIONS = ["Question 1?", "Question 2, after 'no 1'?", "Question 3, after 'no 2'?"]
EXECUTED = {
    "I": {"resolver 1": 4, "resolver 2": 3, "resolver 3": 2, "body": 1},
    "J": {"handler": 4, "once": 1, "memo": 1},
}


@pytest.mark.anyio
@pytest.mark.parametrize("style", EXECUTED)
async def test_three_questions_depend_on_each_other_and_run_what_the_table_says(style: str) -> None:
    executed = Counter[str]()
    asked: list[str] = []

    async def answer(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"answer": f"no {len(asked)}"})

    make = {"I": resolver_server, "J": replay_server}[style]
    server = make(3, lambda name: executed.update([name]))
    with anyio.fail_after(10):
        async with Client(server, mode=MODES["modern"], elicitation_callback=answer) as client:
            result = await client.call_tool(TOOL)
    assert isinstance(result.content[0], types.TextContent)
    assert (asked, result.content[0].text) == (QUESTIONS, "no 1 no 2 no 3")
    assert executed == EXECUTED[style]


@pytest.mark.anyio
async def test_the_styles_are_timed_in_turns_with_their_executions_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cost_questions, "REPEATS", 2)
    monkeypatch.setattr(cost_questions, "CALLS", 1)
    steps: list[None] = []
    timings = await cost_questions.time_per_question_count((3,), lambda: steps.append(None))
    assert {each.option: each.executed for each in timings} == EXECUTED
    assert len(steps) == 2
    assert [each.ratio for each in timings if each.option == "I"] == [1.0]
    assert all(each.milliseconds > 0 for each in timings)
