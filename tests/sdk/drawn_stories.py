"""Stories as Hypothesis draws them: a program, what its bank does, and what its client does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

KINDS = ("form", "form", "link", "sampling")
STOPS = ("OSError", "NotDone", "Unknown", "MCPError", "an error", "a result")
CATCHES = ("nothing", "NotDone", "Unknown", "MCPError", "an error")
TROUBLES = ("fine", "refuses", "unsure", "dies before", "dies after", "slow before", "slow after")
WORDS: tuple[dict[str, Any], ...] = (
    {},
    {"reference": "{}"},
    {"reference": float},
    {"amount": 100},
    {"amount": "100"},
    {"surprise": 1},
    {"note": "other"},
)
"""The arguments of one call in other words; the last one differs in a note."""


@dataclass(frozen=True)
class Step:
    """A step of a program: it asks, does something, or stops the first time that it gets there.

    Attributes:
        does: What it does.
        how: The kind of question; what an effect's author catches; how it stops.
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
        does: "calls", "answers", "declines", "cancels", "resends", "waits".
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

    stand_in: str
    attempts: int
    same: bool
    samples: bool
    steps: tuple[Step, ...]
    troubles: tuple[str, ...]
    looks: tuple[str, ...]
    moves: tuple[Move, ...]

    @property
    def is_silent(self) -> bool:
        """Return whether it may fail where no effect has been told of, or might have been."""
        fails = any(step.how in ("OSError", "Unknown") for step in self.steps)
        return self.stand_in != "J" and fails

    @property
    def program(self) -> list[tuple[str, Step]]:
        """The steps by their keys, in their order. G asks first."""
        steps = [(f"{step.does} {number}", step) for number, step in enumerate(self.steps)]
        if self.stand_in == "G":
            steps.sort(key=lambda each: each[1].does != "asks")
        return steps


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
    st.sampled_from(
        ["calls", "calls", "answers", "answers", "answers", "declines", "cancels", "resends"]
    ),
    st.sampled_from([0, 0, *range(len(WORDS))]),
    _often("fine", "lost", "twice", "both", "beside a call", "leaves"),
    st.sampled_from([0.0, 0.0, 0.0, 0.0, 1.0, 61.0, 599.5, 601.0, 3600.0]),
    st.one_of(
        st.just(()),
        st.lists(st.sampled_from([0.0, 0.0, 0.001, 1.0]), min_size=1, max_size=8).map(tuple),
    ),
)


def _stories(stand_ins: str, same: st.SearchStrategy[bool]) -> st.SearchStrategy[Story]:
    return st.builds(
        Story,
        st.sampled_from(stand_ins),
        st.sampled_from([1, 1, 2]),
        same,
        st.booleans(),
        st.lists(steps, min_size=1, max_size=5).map(tuple),
        st.lists(_often(*TROUBLES), max_size=4).map(tuple),
        st.lists(st.sampled_from(["fine", "cannot say", "away"]), max_size=2).map(tuple),
        st.lists(moves, min_size=1, max_size=7).map(tuple),
    )


kept_stories = _stories("KL", st.just(False))
_any_story = _stories("JJJFGH", st.booleans())
_gates = st.lists(st.sampled_from([0.0, 0.001, 0.4, 1.0]), min_size=8, max_size=8).map(tuple)
_at_the_end = st.builds(
    Story,
    _often("J", "F"),
    st.just(1),
    st.just(False),
    st.just(True),
    st.just((Step("asks", "form"), Step("acts", "nothing"))),
    st.sampled_from([(), ("slow after",)]),
    st.just(()),
    st.tuples(
        st.just(Move("calls")),
        st.builds(
            Move, st.just("answers"), st.just(0), st.just("beside a call"), st.just(599.5), _gates
        ),
        st.just(Move("answers")),
    ),
)
"""The question is answered, and the call made again, where its time ends between two statements."""
stories = st.one_of(_any_story, _any_story, _any_story, _at_the_end)
