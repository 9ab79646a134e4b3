"""The table of faults: each row is a kind of fault, and a fault is such a row at one request.

A new kind is a new row. `fault_kinds` explains the columns, `acts` has what faults do around a
request, and `strikes` what they do at an effect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mrtr_options.errors import UsageError
from mrtr_options.names import nearest
from mrtr_options.review.bench import acts, strikes
from mrtr_options.review.bench.fault_kinds import (
    RAREST,
    Act,
    Condition,
    Kind,
    Need,
    Version,
    do_nothing,
)
from mrtr_options.review.bench.strikes import Strike
from mrtr_options.tool.settings import STATE_TTL_SECONDS
from mrtr_options.tool.weather import EffectKind

CHANGE: Version = "inserted"
"""The version that the fault `redeploy` deploys: one more question."""


# --- when rows can show -------------------------------------------------------------------------


FIRST = Condition("the first request of the call", lambda situation: situation.first)
LATER = Condition("a request after the first", lambda situation: not situation.first)
LATER_OF_TWO = Condition(
    "a request after the first, and two instances",
    lambda situation: not situation.first and situation.fleet == "sticky",
)
BEFORE_A_VERSION = Condition(
    "a request after the first, and a later version to deploy",
    lambda situation: not situation.first and situation.has_next_version,
)
ANSWERS = Condition("a request that answers a question", lambda situation: situation.answers)
ASKS = Condition("a request after which a question is due", lambda situation: situation.asks)
AT_THE_END = Condition(
    "a later request after which no question is due",
    lambda situation: not situation.first and not situation.asks,
)


def _at_effects(
    name: str,
    says: str,
    words: str,
    instruction: str,
    strike: Strike,
    *,
    act_after: Act = do_nothing,
    needs: frozenset[Need] = frozenset(),
    tried: Literal["explore", "script"] = "explore",
    rarity: int = RAREST,
    model: str | None = None,
) -> list[Kind]:
    """Return a row for each kind of effect."""

    def row(effect: EffectKind) -> Kind:
        return Kind(
            f"{name}@{effect}",
            says.format(effect),
            words.format(effect),
            instruction,
            "response",
            act_after=act_after,
            at=effect,
            strike=strike,
            can=Condition(
                f"a request with the {effect}", lambda situation: effect in situation.effects
            ),
            needs=needs,
            tried=tried,
            rarity=rarity,
            model=model,
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
        act_before=lambda moment: moment.restart(),
        can=LATER,
        needs=_RESTART,
        rarity=7,
        model="",
    ),
    Kind(
        "failover",
        "the request goes to another instance than the one that asked",
        "failover",
        "send it to the other instance",
        "before",
        elsewhere=True,
        can=LATER_OF_TWO,
        modern=True,
        needs_two=True,
        rarity=4,
        model="",
    ),
    Kind(
        "expired",
        "eleven minutes pass before the request",
        "state expired",
        "let eleven minutes pass first",
        "before",
        act_before=lambda moment: moment.wait(STATE_TTL_SECONDS + 60),
        can=LATER,
        needs=frozenset({"time"}),
        modern=True,
        model="states too old",
    ),
    Kind(
        "redeploy",
        "a version with one more question is deployed before the request",
        "redeploy",
        "deploy another version first",
        "before",
        act_before=lambda moment: moment.redeploy(CHANGE),
        deploys=CHANGE,
        can=BEFORE_A_VERSION,
        needs=frozenset({"versions"}),
        modern=True,
        model="redeploys",
    ),
    Kind(
        "other",
        "another call of the same user begins before the request and ends after it",
        "another call meanwhile",
        "make another call around it",
        "before",
        act_before=lambda moment: moment.begin_other(),
        act_after=lambda moment: moment.finish_other(),
        another_call=True,
        can=LATER,
        modern=True,
        model="second call at once",
    ),
    Kind(
        "twice",
        "the request is delivered twice, the second time when the first was answered",
        "{nth} request twice",
        "deliver it twice",
        "delivery",
        again="later",
        rarity=1,
        model="",
    ),
    Kind(
        "both",
        "the request is delivered twice at the same moment",
        "{nth} request twice at once",
        "deliver it twice at once",
        "delivery",
        again="at once",
        rarity=2,
        model="",
    ),
    Kind(
        "more",
        "the request is delivered again, with one more property in its answer",
        "{nth} request again with more",
        "deliver it again with one more property",
        "delivery",
        act_after=acts.deliver_with_more,
        can=ANSWERS,
        modern=True,
        tried="check",
    ),
    Kind(
        "misrouted",
        "the request goes to another instance first, and then to the one that asked",
        "{nth} request misrouted",
        "send it to the other instance first",
        "delivery",
        act_before=acts.misroute,
        can=LATER_OF_TWO,
        modern=True,
        needs_two=True,
        rarity=5,
        model="",
    ),
    Kind(
        "early",
        "the request answers every question before it is asked",
        "answers before questions",
        "answer every question in it",
        "delivery",
        act_before=acts.answer_early,
        can=FIRST,
        modern=True,
        tried="alone",
        model="early answers",
    ),
    Kind(
        "lost",
        "the response is lost",
        "{response} lost",
        "lose it",
        "response",
        lost=True,
        rarity=0,
        model="",
    ),
    Kind(
        "ahead",
        "the request already answers the next question, too, and the response is lost",
        "{response} lost, next question answered ahead",
        "answer the next question, too, and lose it",
        "response",
        act_before=acts.answer_ahead,
        lost=True,
        can=ASKS,
        modern=True,
        tried="check",
    ),
    Kind(
        "crash",
        "the instance dies when the handler is done, before it responds",
        "crash before {response}",
        "crash before it is sent",
        "response",
        lost=True,
        act_after=acts.crash,
        needs=_CRASH,
        rarity=8,
        model="",
    ),
    _at_effects(
        "crash",
        "the instance dies right after the {}",
        "crash after {}",
        "crash right after it",
        strikes.INSTANCE_ENDS_AFTER,
        act_after=acts.wait_for_the_next,
        needs=_CRASH,
        rarity=8,
        model="",
    ),
    _at_effects(
        "down",
        "the instance dies right before the {}",
        "crash before {}",
        "crash right before it",
        strikes.INSTANCE_ENDS_BEFORE,
        act_after=acts.wait_for_the_next,
        needs=_CRASH,
        rarity=9,
        model="",
    ),
    _at_effects(
        "gone",
        "the client is gone right after the {}, and its request is cancelled",
        "client gone after {}",
        "let the client leave right after it",
        strikes.CLIENT_LEAVES_AFTER,
        needs=frozenset({"disconnect"}),
        rarity=6,
        model="",
    ),
    _at_effects(
        "fail",
        "the {} fails: its destination is down",
        "{} fails",
        "let it fail",
        strikes.FAILS,
        rarity=10,
        model="failing effects",
    ),
    Kind(
        "back",
        "the user goes back and answers differently",
        "answer changed",
        "go back and answer differently",
        "after",
        act_after=acts.go_back,
        can=ANSWERS,
        modern=True,
        model="changed answers",
    ),
    Kind(
        "old",
        "the request before this one is delivered again, late",
        "earlier request again",
        "deliver the one before it again, late",
        "after",
        act_after=acts.deliver_earlier,
        can=LATER,
        modern=True,
        rarity=3,
        model="",
    ),
    Kind(
        "again",
        "the user makes the same call again on purpose",
        "second call on purpose",
        "have the user want it twice",
        "after",
        act_after=lambda moment: moment.call_again(),
        another_call=True,
        can=AT_THE_END,
        modern=True,
        tried="alone",
        model="",
    ),
    _at_effects(
        "once",
        "the first try of the {} in the round fails",
        "{} fails once",
        "let it fail once",
        strikes.FAILS_ONCE,
        needs=_TRY,
        tried="script",
    ),
    _at_effects(
        "slow",
        "the first try of the {} takes long",
        "slow {}",
        "let it take long",
        strikes.IS_SLOW,
        needs=_TRY,
        tried="script",
    ),
    _at_effects(
        "lock",
        "somebody else writes when the {} is due",
        "{} has to wait",
        "let it wait",
        strikes.HAS_TO_WAIT,
        tried="script",
    ),
)
"""Every kind by its name, grouped by phase.

`PHASES` is the order in which the faults of one request take effect.
"""

PLAYABLE: dict[str, Kind] = {name: kind for name, kind in KINDS.items() if kind.tried != "script"}
"""The kinds that `check` tries and `play` takes."""

EXPLORED: dict[str, Kind] = {
    name: kind for name, kind in PLAYABLE.items() if kind.tried in ("explore", "alone")
}
"""The kinds that each exploration tries."""


# --- a fault ------------------------------------------------------------------------------------


@dataclass(frozen=True, order=True)
class Fault:
    """One fault at one request.

    Attributes:
        round: The number of the round in its call, from 1. The round that answers a question has
            the same number in every run; one that answers a question of a later version comes last.
        attempt: The number of the client's attempt at that round, from 1. A client that calls again
            attempts round 1 again.
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
        if match is None or match[1] not in PLAYABLE:
            raise NoFault(_no_fault(name))
        found.append(Fault(int(match[2]), int(match[3] or 1), match[1]))
    return tuple(sorted(set(found)))


def _no_fault(name: str) -> str:
    kind = re.split(r"\d", name)[0]
    text = (
        f"{name!r} is not a fault; write what goes wrong and the round, from 1, as in lost3,"
        " or lost3.2 for its second attempt"
    )
    if kind in PLAYABLE:
        return text
    near = nearest(kind, PLAYABLE) or f"there are {', '.join(PLAYABLE)}"
    return f"{text}; {near}"


def names_of(faults: Faults) -> str:
    """Return faults as `parse` takes them."""
    return " ".join(map(str, faults))
