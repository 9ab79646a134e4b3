"""Stories as Hypothesis draws them: a program, what its bank does, and what its client does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

from mrtr_options.sdk.durable.context import ATTEMPTS
from mrtr_options.sdk.single_use.guard import CALL_SECONDS

KINDS = ("form", "form", "link", "sampling")
STOPS = ("OSError", "NotDone", "Unknown", "MCPError", "an error", "a result")
CATCHES = ("nothing", "NotDone", "Unknown", "MCPError", "an error", "asks", "goes on")
TROUBLES = (
    "fine",
    "refuses",
    "unsure",
    "exits",
    "dies before",
    "dies after",
    "slow before",
    "slow after",
)
WORDS: tuple[dict[str, Any], ...] = (
    {},
    {"reference": "{}"},
    {"reference": float},
    {"reference": "{}.00"},
    {"amount": 100},
    {"amount": "100.0"},
    {"due": "2026-12-01T13:00:00+01:00"},
    {"surprise": 1},
    {"note": "other"},
)
"""The arguments of one call in other words; the last one differs in a note."""

SAME_WORDS = len(WORDS) - 1


@dataclass(frozen=True)
class Step:
    """A step of a program: it asks, does something, or stops the first time that it gets there.

    Attributes:
        does: What it does.
        how: The kind of question; what an effect's author catches, whether it asks when it has
            had its effect, or whether its author goes on without it; how it stops.
        can_look: Whether the bank can be asked about the effect.
        in_group: Whether a task of a group does it.
    """

    does: Literal["asks", "acts", "stops"]
    how: str
    can_look: bool = False
    in_group: bool = False


@dataclass(frozen=True)
class Move:
    """A move of the client, or of its network.

    Attributes:
        does: "calls", "answers", "declines", "cancels", "misfits", "resends".
        words: How the call is worded.
        way: How the request is delivered.
        seconds: How long the client waits before.
        gates: How long the store's next statements take.
    """

    does: str
    words: int = 0
    way: str = "fine"
    seconds: float = 0.0
    gates: tuple[float, ...] = ()


@dataclass(frozen=True)
class Story:
    """A program, what its bank does, and what its client does.

    Attributes:
        stand_in: "F", "G", "H" or "J" in the guard; "K" or "L" on an engine.
        attempts: The guard's; 2 only where the bank honours idempotency keys.
        same: Whether the author says which arguments have to be the same.
        samples: Whether the client can be asked to sample.
        steps: The program.
        troubles: What the bank does, one arrival after the other.
        looks: What it says when it is asked.
        moves: What the client does.
    """

    stand_in: str = "J"
    attempts: int = 1
    same: bool = False
    samples: bool = True
    steps: tuple[Step, ...] = ()
    troubles: tuple[str, ...] = ()
    looks: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()

    @property
    def ends_name(self) -> bool:
        """Return whether the call's name may begin another call in the end."""
        return sum(move.seconds for move in self.moves) > CALL_SECONDS - 1

    @property
    def is_silent(self) -> bool:
        """Return whether it may fail where no effect has been told of, or might have been."""
        fails = ("OSError",) if self.stand_in in "KL" else ("OSError", "Unknown")
        if self.stand_in == "G":  # its end step counts as an effect, which may call another server
            fails += ("MCPError",)
        return self.stand_in != "J" and any(step.how in fails for step in self.steps)

    @property
    def can_settle(self) -> bool:
        """Return whether the stand-in can settle each effect, since the bank can always say."""
        acts = [step for step in self.steps if step.does == "acts"]
        asks_bank = self.stand_in in "FJKL" and not self.is_silent and not self.looks
        return asks_bank and all(step.can_look for step in acts)

    @property
    def goes_on(self) -> bool:
        """Return whether its author may go on without knowing of an effect."""
        return any(step.how == "goes on" for step in self.steps)

    @property
    def is_given_up(self) -> bool:
        """Return whether its processes die so often that an engine gives the call up."""
        deaths = sum(trouble.startswith("dies") for trouble in self.troubles)
        return self.stand_in in "KL" and deaths >= ATTEMPTS

    @property
    def is_refused(self) -> bool:
        """Return whether an effect asks, which J refuses."""
        return self.stand_in == "J" and any(step.how == "asks" for step in self.steps)

    @property
    def program(self) -> list[tuple[str, Step]]:
        """The steps by their keys, in their order. G asks first."""
        steps = [(f"{step.does} {number}", step) for number, step in enumerate(self.steps)]
        if self.stand_in == "G":
            steps.sort(key=lambda each: each[1].does != "asks")
        return steps


ANSWERS = ["answers", "answers", "answers", "declines", "cancels", "misfits"]
MOVES = ["calls", "calls", *ANSWERS, "resends"]


def _often(first: str, *others: str) -> st.SearchStrategy[str]:
    return st.sampled_from([first, first, first, *others])


groups = st.sampled_from([False, False, False, True])
steps = st.one_of(
    st.builds(Step, st.just("asks"), st.sampled_from(KINDS), st.just(False), groups),
    st.builds(Step, st.just("acts"), _often(*CATCHES), st.booleans(), groups),
    st.builds(Step, st.just("stops"), st.sampled_from(STOPS), st.just(False), groups),
)
moves = st.builds(
    Move,
    st.sampled_from(MOVES),
    st.sampled_from([0, 0, *range(len(WORDS))]),
    _often("fine", "lost", "twice", "both", "beside a call", "leaves"),
    st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 61.0, 599.5, 601.0, 3600.0]),
    st.one_of(
        st.just(()),
        st.lists(st.sampled_from([0.0, 0.0, 0.001, 1.0]), min_size=1, max_size=8).map(tuple),
    ),
)


_programs = st.lists(steps, min_size=1, max_size=5).map(tuple)


def _stories(
    stand_ins: str,
    same: st.SearchStrategy[bool],
    programs: st.SearchStrategy[tuple[Step, ...]] = _programs,
) -> st.SearchStrategy[Story]:
    return st.builds(
        Story,
        st.sampled_from(stand_ins),
        st.sampled_from([1, 1, 2]),
        same,
        st.booleans(),
        programs,
        st.lists(_often(*TROUBLES), max_size=4).map(tuple),
        st.lists(st.sampled_from(["fine", "cannot say", "away"]), max_size=2).map(tuple),
        st.lists(moves, min_size=1, max_size=7).map(tuple),
    )


_acts = st.builds(Step, st.just("acts"), st.just("Unknown"), st.booleans(), groups)
_unknown_after_a_step = st.tuples(_acts, steps, st.just(Step("stops", "Unknown")), _acts)
kept_stories = _stories("KL", st.just(False), st.one_of(_programs, _unknown_after_a_step))
_any_story = _stories("JJJFGH", st.booleans())
_gates = st.lists(st.sampled_from([0.0, 0.001, 0.4, 1.0]), min_size=8, max_size=8).map(tuple)


def _beside_a_call(does: str, seconds: float) -> st.SearchStrategy[Move]:
    way, gates = st.just("beside a call"), _gates
    return st.builds(Move, st.just(does), st.just(0), way, st.just(seconds), gates)


_at_a_questions_end = st.builds(
    Story,
    stand_in=_often("J", "F"),
    steps=st.just((Step("asks", "form"), Step("acts", "nothing"))),
    troubles=st.sampled_from([(), ("slow after",)]),
    moves=st.tuples(
        st.just(Move("calls")), _beside_a_call("answers", 599.5), st.just(Move("answers"))
    ),
)
"""The question is answered, and the call made again, where its time ends between two statements."""
_at_a_names_end = st.builds(
    Story,
    attempts=st.sampled_from([1, 2]),
    steps=st.just((Step("acts", "nothing", can_look=True),)),
    troubles=st.sampled_from([("dies before", "slow before"), ("dies before", "slow after")]),
    moves=st.tuples(st.just(Move("calls")), _beside_a_call("calls", CALL_SECONDS - 0.5)),
)
"""An abandoned round is taken over, and its name's time ends while it is at work."""
stories = st.one_of(_any_story, _any_story, _any_story, _at_a_questions_end, _at_a_names_end)
