"""Any tool in the guard or on an engine: each effect at most once, and what is told is true."""

from collections.abc import Callable, Generator
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.evidence import every
from tests.sdk.any_engine import engine
from tests.sdk.any_tool import play
from tests.sdk.drawn_stories import SAME_WORDS, Move, Step, Story, kept_stories, stories

EXAMPLES = {"150": 150, "4000": 4_000}


@pytest.fixture(scope="module")
def play_there() -> Generator[Callable[[Story], None]]:
    """Run an engine for the stories of this module."""
    with engine() as play_there:
        yield play_there


@pytest.mark.parametrize("examples", every("any tool", EXAMPLES, ("150",)))
def test_any_call_of_any_tool_is_done_once_and_told_truly(examples: int) -> None:
    settings(max_examples=examples)(given(stories)(play))()


# DBOS uses the module in threads of its own while Hypothesis draws.
@pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")
@pytest.mark.parametrize("examples", every("any tool", {"10": 10, "400": 400}, ("10",)))
def test_any_call_on_an_engine_is_done_once_and_told_truly(
    examples: int, play_there: Callable[[Story], None]
) -> None:
    settings(max_examples=examples, deadline=None)(given(kept_stories)(play_there))()


# --- stories that are drawn too rarely ------------------------------------------------------------

ASKS = Step("asks", "form")
ACTS = Step("acts", "nothing")
CHARGES = Step("acts", "nothing", can_look=True)
SENDS = Step("acts", "Unknown", can_look=True)
NOT_DONE = Step("stops", "NotDone")
FAILS = Step("stops", "OSError")

CALLS, ANSWERS, DECLINES, CANCELS = map(Move, ("calls", "answers", "declines", "cancels"))
MISFITS = Move("misfits")
LATER = Move("calls", seconds=61.0)
TOO_LATE = Move("answers", seconds=601.0)

STORIES: dict[str, Story] = {
    "a no after an effect keeps the name and tells of it": Story(
        steps=(ASKS, ACTS, ASKS), moves=(CALLS, ANSWERS, DECLINES)
    ),
    "an answer that does not fit after an effect tells of it": Story(
        steps=(ACTS, ASKS), moves=(CALLS, MISFITS, ANSWERS)
    ),
    "an answer that does not fit, to a round that is done, tells of it": Story(
        steps=(ASKS, ACTS), moves=(CALLS, ANSWERS, MISFITS)
    ),
    "a no before any effect frees the name": Story(steps=(ASKS, ACTS), moves=(CALLS, CANCELS)),
    "two calls at once after a no are one": Story(
        steps=(ASKS, ACTS), moves=(CALLS, DECLINES, Move("calls", way="both"), ANSWERS)
    ),
    "a no after an effect that was cut off tells of it": Story(
        steps=(ASKS, CHARGES),
        troubles=("dies after",),
        looks=("away",),
        moves=(CALLS, ANSWERS, LATER, DECLINES),
    ),
    "a no after an effect and a doubt tells of both": Story(
        attempts=2,
        steps=(ASKS, CHARGES, CHARGES),
        troubles=("fine", "slow before"),
        moves=(CALLS, ANSWERS, Move("declines", way="beside a call"), CANCELS),
    ),
    "a question after an effect that is answered too late is asked again": Story(
        steps=(ASKS, ACTS, ASKS), moves=(CALLS, ANSWERS, TOO_LATE)
    ),
    "a question before any effect that is answered too late frees the name": Story(
        steps=(ASKS, ACTS), moves=(CALLS, TOO_LATE)
    ),
    "a call is known by its latest round": Story(
        steps=(ASKS, ACTS), moves=(CALLS, Move("answers", seconds=599.5), CALLS)
    ),
    "a failure before any effect frees the name": Story(steps=(FAILS, ACTS), moves=(CALLS,)),
    "a failure after an effect is in doubt": Story(steps=(ACTS, FAILS), moves=(CALLS,)),
    "a failure after an earlier effect is not told as nothing done": Story(
        steps=(ACTS, ASKS, FAILS), moves=(CALLS, ANSWERS)
    ),
    "NotDone after a refused effect frees the name": Story(
        steps=(Step("acts", "NotDone"),), troubles=("refuses",), moves=(CALLS,)
    ),
    "a refused effect of which the bank says that it was not done frees the name": Story(
        steps=(CHARGES,), troubles=("refuses",), moves=(CALLS,)
    ),
    "NotDone after an effect keeps the name": Story(steps=(ACTS, NOT_DONE), moves=(CALLS, CALLS)),
    "NotDone in a group frees the name": Story(
        steps=(replace(NOT_DONE, in_group=True), ACTS), moves=(CALLS,)
    ),
    "a no in a group frees the name": Story(
        steps=(replace(ASKS, in_group=True), ACTS), moves=(CALLS, DECLINES)
    ),
    "an effect that raised is in doubt": Story(
        steps=(ACTS,), troubles=("unsure",), moves=(CALLS, CALLS)
    ),
    "an effect that would end its process is in doubt": Story(
        steps=(ASKS, ACTS), troubles=("exits",), moves=(CALLS, ANSWERS)
    ),
    "an effect that would end its process is settled at once": Story(
        steps=(CHARGES,), troubles=("exits",), moves=(CALLS,)
    ),
    "an effect that raised is settled at once": Story(
        steps=(CHARGES,), troubles=("unsure",), moves=(CALLS,)
    ),
    "an unknown effect is looked up by the next call": Story(
        steps=(ACTS, ASKS, SENDS), troubles=("fine", "unsure"), looks=("away",),
        moves=(CALLS, ANSWERS),
    ),
    "an effect that raised is not done again after a question": Story(
        steps=(Step("acts", "goes on"), ASKS), troubles=("unsure",), moves=(CALLS, ANSWERS)
    ),
    "an effect that was given up is settled after a question": Story(
        steps=(Step("acts", "goes on", can_look=True), ASKS),
        troubles=("slow after",),
        moves=(CALLS, ANSWERS),
    ),
    "an effect whose process died is settled by the next": Story(
        steps=(CHARGES,), troubles=("dies after",), moves=(CALLS, CALLS)
    ),
    "a process that dies after its round's time takes no later call with it": Story(
        steps=(ASKS, ACTS, ACTS),
        troubles=("slow before", "dies before"),
        moves=(CALLS, ANSWERS, LATER),
    ),
    "a question whose process died is asked again": Story(
        attempts=2, steps=(ASKS, ACTS), troubles=("dies before",), moves=(CALLS, ANSWERS)
    ),
    "an unknown end after a question is tried again": Story(
        steps=(SENDS, ASKS, Step("stops", "Unknown")), troubles=("unsure",), looks=("away",),
        moves=(CALLS, ANSWERS),
    ),
    "what nobody can say stays in doubt": Story(
        steps=(CHARGES,), troubles=("dies before",), looks=("cannot say",), moves=(CALLS, LATER)
    ),
    "an effect that was cut off is settled though its round was given back": Story(
        steps=(ASKS, CHARGES),
        troubles=("dies after",),
        moves=(CALLS, ANSWERS, Move("resends", gates=(0.0, 0.0, 0.0, 61.0)), ANSWERS),
    ),
    "a round that waited too long to begin is given back": Story(
        steps=(ASKS, ACTS), moves=(CALLS, Move("answers", gates=(61.0,)))
    ),
    "other words are the same call": Story(
        steps=(ASKS, ACTS),
        moves=(CALLS, *(Move("calls", words=each) for each in range(1, SAME_WORDS)), ANSWERS),
    ),
    "other words are the same call when it has ended": Story(
        steps=(ASKS, ACTS), moves=(CALLS, ANSWERS, Move("calls", words=1), ANSWERS)
    ),
}  # fmt: skip


@pytest.mark.parametrize("stand_in", "FGHJKL")
@pytest.mark.parametrize("name", STORIES)
def test_in_any_stand_in(name: str, stand_in: str, play_there: Callable[[Story], None]) -> None:
    story = replace(STORIES[name], stand_in=stand_in)
    (play_there if stand_in in "KL" else play)(story)
