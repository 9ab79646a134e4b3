"""The table of faults: each row is a kind of fault, and a fault is such a row at one request.

A row says when the fault can happen and which abilities of a deployment it needs, and it makes the
fault happen: `before` and `after` are called around the request that the client sends. A new kind
is a new row.

The rows act on the moment of the request (`moments`), which `driver` implements.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mrtr_options.errors import UsageError
from mrtr_options.names import nearest
from mrtr_options.review.bench.moments import Moment
from mrtr_options.review.bench.setup import Era, Fleet
from mrtr_options.tool.settings import STATE_TTL_SECONDS
from mrtr_options.tool.weather import EffectKind

Phase = Literal["before", "delivery", "response", "after"]
"""The part of a request that a fault concerns, in the order in which the parts happen.

A fault happens before the request, changes how often it is delivered, takes its response away,
or happens after it. At one request there is at most one fault of each phase.
"""

PHASES: tuple[Phase, ...] = ("before", "delivery", "response", "after")

Tried = Literal["explore", "alone", "check", "script"]
"""The commands that try a fault; see `Kind.tried`."""

Need = Literal[
    "restart",
    "time",
    "versions",
    "crash",
    "disconnect",
    "one try of an effect",
    "callers",
    "tasks",
]
"""The abilities that a deployment needs.

They are to replace its instances, let time pass, deploy another version, end an instance, cancel
a request at an effect, make one try of an effect fail or wait, tell callers apart, and serve
tasks. Every deployment can make an effect fail.
"""

BACK_OFF_SECONDS = 61.0
"""The time after which a client retries a server's failure and a dead instance is replaced.

It is longer than the single-use guard waits for its rounds.
"""

CHANGE: Literal["inserted"] = "inserted"
"""The version that the fault `redeploy` deploys: one more question."""


@dataclass(frozen=True)
class At:
    """The facts about a request that decide whether a fault can happen at it.

    Attributes:
        first: Whether it is the first request of the run.
        era: The client's era.
        fleet: The instances, and how rounds reach them.
        answers: Whether it carries an answer to a question that every version asks.
        asks: Whether such a question follows.
        effects: The kinds of effects that took place in its round.
        has_next_version: Whether there is a later version to deploy.
    """

    first: bool
    era: Era
    fleet: Fleet
    answers: bool
    asks: bool
    effects: frozenset[str]
    has_next_version: bool


Act: TypeAlias = "Callable[[Moment], Awaitable[None]]"


async def _nothing(moment: Moment) -> None:
    return


@dataclass(frozen=True)
class Kind:
    """One way in which a request can go wrong.

    Attributes:
        name: Its name, without the round.
        says: The fault in a sentence.
        words: The same in the few words of a table's cell, 25 characters with the round at most.
        do: The same as an instruction, as the page offers it; see `where`.
        phase: The part of the request that it concerns.
        at: The effect at which it happens; None for a fault of the request itself.
        needs: The abilities of a deployment that it needs.
        modern: Whether it needs a call of several requests, as only modern clients make.
        needs_two: Whether it needs two instances, and rounds that go to the one that asked.
        can: Tells whether it can show at a request.
        before, after: The acts before the request is sent, and after its response.
        tried: The commands that try it. "explore": every exploration. "alone": every exploration,
            but not together with another fault, since it does not depend on one. "check": only
            `check` and `play`, since the client misbehaves. "script": only scripts.
    """

    name: str
    says: str
    words: str
    do: str
    phase: Phase
    before: Act = _nothing
    after: Act = _nothing
    can: Callable[[At], bool] = lambda at: True
    needs: frozenset[Need] = frozenset()
    modern: bool = False
    needs_two: bool = False
    at: EffectKind | None = None
    tried: Tried = "explore"

    @property
    def where(self) -> str:
        """The place where the page offers it: at the request, at its response, or at an effect."""
        return self.at or ("response" if self.phase == "response" else "request")

    @property
    def what(self) -> str:
        """The name without the effect, for a fault at an effect."""
        return self.name.partition("@")[0]

    @property
    def is_after(self) -> bool:
        """Return whether the effect happens before the instance ends or the client leaves."""
        return self.what in ("crash", "gone")

    @property
    def is_another_call(self) -> bool:
        """Return whether the user means another call than the one under review."""
        return self.name in ("other", "again")

    @property
    def is_of_ledger(self) -> bool:
        """Return whether it happens in the ledger, and the instance and the client stay."""
        return self.what in ("fail", "once", "slow", "lock")


# --- the acts -----------------------------------------------------------------------------------


async def _send_elsewhere(moment: Moment) -> None:
    moment.elsewhere = True


async def _deliver_twice(moment: Moment) -> None:
    moment.deliveries = 2


async def _deliver_at_once(moment: Moment) -> None:
    moment.deliveries = 2
    moment.at_once = True


async def _answer_early(moment: Moment) -> None:
    await moment.answer_early()


async def _lose(moment: Moment) -> None:
    moment.lost = True


async def _lose_what_answers_ahead(moment: Moment) -> None:
    await moment.answer_ahead()
    await _lose(moment)


async def _crash(moment: Moment) -> None:
    await moment.crash()
    await _wait_for_the_next(moment)


async def _wait_for_the_next(moment: Moment) -> None:
    await moment.wait(BACK_OFF_SECONDS)


def _later(at: At) -> bool:
    return not at.first


def _at_the_end(at: At) -> bool:
    return not at.first and not at.asks


def _later_of_two(at: At) -> bool:
    return not at.first and at.fleet == "sticky"


def _at_effects(
    what: str,
    says: str,
    words: str,
    do: str,
    needs: frozenset[Need],
    *,
    dies: bool = False,
    tried: Tried = "explore",
) -> list[Kind]:
    """Return a row for each kind of effect."""

    def row(effect: EffectKind) -> Kind:
        name = f"{what}@{effect}"
        return Kind(
            name,
            says.format(effect),
            words.format(effect),
            do,
            "response",
            before=lambda moment: moment.arm(name),
            after=_wait_for_the_next if dies else _nothing,
            can=lambda at: effect in at.effects,
            needs=needs,
            at=effect,
            tried=tried,
        )

    return [row("audit"), row("bill")]


def _rows(*rows: Kind | list[Kind]) -> dict[str, Kind]:
    every: list[Kind] = []
    for row in rows:
        if isinstance(row, list):
            every += row
        else:
            every.append(row)
    return {kind.name: kind for kind in every}


_RESTART: frozenset[Need] = frozenset({"restart"})
_CRASH: frozenset[Need] = frozenset({"crash"})
_TRY: frozenset[Need] = frozenset({"one try of an effect"})

KINDS: dict[str, Kind] = _rows(
    Kind(
        "restart",
        "every instance is replaced before the request",
        "restart",
        "replace every instance first",
        "before",
        before=lambda moment: moment.restart(),
        can=_later,
        needs=_RESTART,
    ),
    Kind(
        "failover",
        "the request goes to another instance than the one that asked",
        "failover",
        "send it to the other instance",
        "before",
        before=_send_elsewhere,
        can=_later_of_two,
        modern=True,
        needs_two=True,
    ),
    Kind(
        "expired",
        "eleven minutes pass before the request",
        "state expired",
        "let eleven minutes pass first",
        "before",
        before=lambda moment: moment.wait(STATE_TTL_SECONDS + 60),
        can=_later,
        needs=frozenset({"time"}),
        modern=True,
    ),
    Kind(
        "redeploy",
        "a version with one more question is deployed before the request",
        "redeploy",
        "deploy another version first",
        "before",
        before=lambda moment: moment.redeploy(),
        can=lambda at: not at.first and at.has_next_version,
        needs=frozenset({"versions"}),
        modern=True,
    ),
    Kind(
        "other",
        "another call of the same user begins before the request and ends after it",
        "another call meanwhile",
        "make another call around it",
        "before",
        before=lambda moment: moment.begin_other(),
        after=lambda moment: moment.finish_other(),
        can=_later,
        modern=True,
    ),
    Kind(
        "twice",
        "the request is delivered twice, the second time when the first was answered",
        "{nth} request twice",
        "deliver it twice",
        "delivery",
        before=_deliver_twice,
    ),
    Kind(
        "both",
        "the request is delivered twice at the same moment",
        "{nth} request twice at once",
        "deliver it twice at once",
        "delivery",
        before=_deliver_at_once,
    ),
    Kind(
        "more",
        "the request is delivered again, with one more property in its answer",
        "{nth} request again with more",
        "deliver it again with one more property",
        "delivery",
        after=lambda moment: moment.deliver_with_more(),
        can=lambda at: at.answers,
        modern=True,
        tried="check",
    ),
    Kind(
        "misrouted",
        "the request goes to another instance first, and then to the one that asked",
        "{nth} request misrouted",
        "send it to the other instance first",
        "delivery",
        before=lambda moment: moment.misroute(),
        can=_later_of_two,
        modern=True,
        needs_two=True,
    ),
    Kind(
        "early",
        "the request answers every question before it is asked",
        "answers before questions",
        "answer every question in it",
        "delivery",
        before=_answer_early,
        can=lambda at: at.first,
        modern=True,
        tried="alone",
    ),
    Kind("lost", "the response is lost", "{response} lost", "lose it", "response", before=_lose),
    Kind(
        "ahead",
        "the request already answers the next question, too, and the response is lost",
        "{response} lost, next question answered ahead",
        "answer the next question, too, and lose it",
        "response",
        before=_lose_what_answers_ahead,
        can=lambda at: at.asks,
        modern=True,
        tried="check",
    ),
    Kind(
        "crash",
        "the instance dies when the handler is done, before it responds",
        "crash before {response}",
        "crash before it is sent",
        "response",
        before=_lose,
        after=_crash,
        needs=_CRASH,
    ),
    _at_effects(
        "crash",
        "the instance dies right after the {}",
        "crash after {}",
        "crash right after it",
        _CRASH,
        dies=True,
    ),
    _at_effects(
        "down",
        "the instance dies right before the {}",
        "crash before {}",
        "crash right before it",
        _CRASH,
        dies=True,
    ),
    _at_effects(
        "gone",
        "the client is gone right after the {}, and its request is cancelled",
        "client gone after {}",
        "let the client leave right after it",
        frozenset({"disconnect"}),
    ),
    _at_effects(
        "fail", "the {} fails: its destination is down", "{} fails", "let it fail", frozenset()
    ),
    Kind(
        "back",
        "the user goes back and answers differently",
        "answer changed",
        "go back and answer differently",
        "after",
        after=lambda moment: moment.go_back(),
        can=lambda at: at.answers,
        modern=True,
    ),
    Kind(
        "old",
        "the request before this one is delivered again, late",
        "earlier request again",
        "deliver the one before it again, late",
        "after",
        after=lambda moment: moment.deliver_earlier(),
        can=_later,
        modern=True,
    ),
    Kind(
        "again",
        "the user makes the same call again on purpose",
        "second call on purpose",
        "have the user want it twice",
        "after",
        after=lambda moment: moment.call_again(),
        can=_at_the_end,
        modern=True,
        tried="alone",
    ),
    _at_effects(
        "once",
        "the first try of the {} in the round fails",
        "{} fails once",
        "let it fail once",
        _TRY,
        tried="script",
    ),
    _at_effects(
        "slow",
        "the first try of the {} takes long",
        "slow {}",
        "let it take long",
        _TRY,
        tried="script",
    ),
    _at_effects(
        "lock",
        "somebody else writes when the {} is due",
        "{} has to wait",
        "let it wait",
        frozenset(),
        tried="script",
    ),
)
"""Every kind by its name, in the order in which faults of one request take effect."""

NAMED: dict[str, Kind] = {name: kind for name, kind in KINDS.items() if kind.tried != "script"}
"""The kinds that `check` tries and `play` takes."""

EXPLORED: dict[str, Kind] = {
    name: kind for name, kind in NAMED.items() if kind.tried in ("explore", "alone")
}
"""The kinds that each exploration tries."""


# --- a fault ------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Fault:
    """One fault at one request.

    Attributes:
        round: The number of the call's round, from 1. The round that answers a question has the
            same number in every run, and one that answers a question of a later version comes last.
        attempt: The number of the request of that round, from 1. A client that calls again attempts
            round 1 again.
        name: The kind's name in `KINDS`.
    """

    round: int
    attempt: int
    name: str

    def __str__(self) -> str:
        name = f"{self.name}{self.round}"
        return name if self.attempt == 1 else f"{name}.{self.attempt}"

    @property
    def kind(self) -> Kind:
        """The row of the table."""
        return KINDS[self.name]

    @property
    def says(self) -> str:
        """The fault in a sentence that names the round."""
        number = f"{self.round}"
        if self.attempt > 1:
            number = f"{self.round} (attempt {self.attempt})"
        said = self.kind.says
        for what in ("request", "response"):
            said = re.sub(rf"\bthe {what}\b(?! before)", f"{what} {number}", said, count=1)
        return said if said != self.kind.says else f"in round {number} {said}"


Faults = tuple[Fault, ...]


class NoFault(UsageError, ValueError):
    """An unknown fault. The text is one line that says what to write."""


def parse(text: str) -> Faults:
    """Return the faults of these names: "lost3", "restart2 crash@bill3"; none for an empty text.

    Raises:
        NoFault: A name is unknown.
    """
    found: list[Fault] = []
    for name in filter(None, re.split(r"[\s,|+]+", text)):
        match = re.fullmatch(r"([a-z@]+)([1-9]\d*)(?:\.([1-9]\d*))?", name)
        if match is None or match[1] not in NAMED:
            raise NoFault(_no_fault(name))
        found.append(Fault(int(match[2]), int(match[3] or 1), match[1]))
    return tuple(sorted(set(found)))


def _no_fault(name: str) -> str:
    kind = re.split(r"\d", name)[0]
    text = (
        f"{name!r} is not a fault; write what goes wrong and the round, from 1, as in lost3,"
        " or lost3.2 for its second attempt"
    )
    if kind in NAMED:
        return text
    near = nearest(kind, NAMED) or f"there are {', '.join(NAMED)}"
    return f"{text}; {near}"


def names_of(faults: Faults) -> str:
    """Return faults as `parse` takes them."""
    return " ".join(map(str, faults))
