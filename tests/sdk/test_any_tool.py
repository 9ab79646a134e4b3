"""Any tool in the guard: each effect happens at most once, and what is told is true."""

import pytest
from hypothesis import given, settings

from tests.evidence import every
from tests.sdk.any_tool import play
from tests.sdk.drawn_stories import Move, Step, Story, stories

EXAMPLES = {"400": 400, "4000": 4_000}


@pytest.mark.parametrize("examples", every("any tool", EXAMPLES, ("400",)))
def test_any_call_of_any_tool_is_done_once_and_told_truly(examples: int) -> None:
    settings(max_examples=examples)(given(stories)(play))()


def test_a_failure_after_an_earlier_effect_is_not_told_as_nothing_done() -> None:
    steps = Step("acts", "nothing"), Step("asks", "form"), Step("stops", "OSError")
    play(Story("J", 1, False, True, steps, (), (), (Move("calls"), Move("answers"))))
