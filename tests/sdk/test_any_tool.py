"""Any tool in the guard or on an engine: each effect at most once, and what is told is true."""

import pytest
from hypothesis import given, settings

from tests.evidence import every
from tests.sdk.any_engine import engine
from tests.sdk.any_tool import play
from tests.sdk.drawn_stories import Move, Step, Story, kept_stories, stories

EXAMPLES = {"400": 400, "4000": 4_000}


@pytest.mark.parametrize("examples", every("any tool", EXAMPLES, ("400",)))
def test_any_call_of_any_tool_is_done_once_and_told_truly(examples: int) -> None:
    settings(max_examples=examples)(given(stories)(play))()


# DBOS uses the module in threads of its own while Hypothesis draws.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("examples", every("any tool", {"10": 10, "400": 400}, ("10",)))
def test_any_call_on_an_engine_is_done_once_and_told_truly(examples: int) -> None:
    with engine() as play_there:
        settings(max_examples=examples, deadline=None)(given(kept_stories)(play_there))()


def test_a_failure_after_an_earlier_effect_is_not_told_as_nothing_done() -> None:
    steps = Step("acts", "nothing"), Step("asks", "form"), Step("stops", "OSError")
    play(Story("J", 1, False, True, steps, (), (), (Move("calls"), Move("answers"))))
