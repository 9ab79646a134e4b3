"""What the kept runs of clients come to, in numbers: which of three clients each one is, and what
its users were charged and told.

Knows what is kept. Everything here is counted from runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

from mrtr_options.review.bench.faults import ERAS, Era
from scoreboard.clients.kept import Report
from scoreboard.clients.play import Seen
from scoreboard.clients.troubles import TROUBLES

Model = Literal["stops", "calls again", "resends"]
"""What a client does when a response is lost: it tells the application of an error and does no
more; it calls the tool again, from scratch; or it sends the lost request again.
"""

ORDER: tuple[Model, ...] = ("stops", "calls again", "resends")
"""The models, the one that does least first."""


@dataclass(frozen=True)
class Behaviour:
    """What one client did, of itself, when responses were lost over HTTP.

    Attributes:
        client: Its name.
        era: What it spoke.
        lost: How many calls lost a response.
        resent: In how many it sent a lost round again.
        called_again: In how many it called the tool again.
        told: In how many it did neither and told the application of an error.
        hung: In how many it did neither and told nothing.
        dead: In how many the same client object was of no use afterwards.
    """

    client: str
    era: Era
    lost: int
    resent: int
    called_again: int
    told: int
    hung: int
    dead: int

    @property
    def model(self) -> Model:
        """Which of the three clients it is: what it did at least once."""
        if self.resent:
            return "resends"
        return "calls again" if self.called_again else "stops"


@dataclass(frozen=True)
class Charged:
    """What some calls came to.

    Attributes:
        calls: How many.
        twice: How many charged the user twice or more.
        told_of_error: How many charged once, and the user was told of an error.
        hung: How many charged once, and the user was told nothing.
        once: How many charged once, and the user got the result.
        nothing: How many charged nothing.
    """

    calls: int = 0
    twice: int = 0
    told_of_error: int = 0
    hung: int = 0
    once: int = 0
    nothing: int = 0

    @staticmethod
    def of(runs: Iterable[Seen]) -> Charged:
        """Count runs."""
        return sum(map(_charged, runs), Charged())

    def __add__(self, other: Charged) -> Charged:
        sums = {
            each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(self)
        }
        return Charged(**sums)


def _charged(seen: Seen) -> Charged:
    bills = seen.bills or 0
    if bills > 1:
        return Charged(1, twice=1)
    if not bills:
        return Charged(1, nothing=1)
    if seen.got == "result":
        return Charged(1, once=1)
    if seen.got == "nothing":
        return Charged(1, hung=1)
    return Charged(1, told_of_error=1)


def is_dead(seen: Seen) -> bool:
    """Return whether the call failed and left a client of no use."""
    if seen.got in ("client error", "died"):
        return not seen.usable
    return seen.got == "error" and seen.usable is False


def lost(runs: Iterable[Seen]) -> list[Seen]:
    """Return the runs in which a response is lost and the application does nothing."""
    return [seen for seen in runs if TROUBLES[seen.trouble].loses]


def made_again(runs: Iterable[Seen]) -> list[Seen]:
    """Return the runs in which a response is lost and the application, told so, calls again."""
    return [seen for seen in runs if seen.made_again]


def behaviour(report: Report, client: str, era: Era) -> Behaviour:
    """Return what a client did of itself. It is counted with one server, over HTTP."""
    runs = [seen for seen in lost(report.of(client, era)) if seen.requests is not None]
    idle = [seen for seen in runs if not seen.again and not seen.anew]
    return Behaviour(
        client,
        era,
        lost=len(runs),
        resent=sum(seen.again > 0 for seen in runs),
        called_again=sum(seen.anew > 0 for seen in runs),
        told=sum(seen.got not in ("result", "nothing") for seen in idle),
        hung=sum(seen.got == "nothing" for seen in idle),
        dead=sum(map(is_dead, runs)),
    )


def behaviours(report: Report) -> list[Behaviour]:
    """Return what each client did of itself, for each era that it speaks."""
    return [behaviour(report, name, era) for name, era in spoken(report)]


def spoken(report: Report) -> Iterator[tuple[str, Era]]:
    """Return each client with each era that it was run in."""
    for name in report.clients:
        for era in ERAS:
            if report.of(name, era):
                yield name, era


def shipped(report: Report, server: str) -> list[Seen]:
    """Return what all shipped clients did with one server."""
    return [
        seen
        for seen in report.seen
        if seen.server == server and not report.clients[seen.client].is_ours
    ]


def of_model(report: Report, model: Model) -> dict[str, list[Era]]:
    """Return the shipped clients that are of one model in some era, with these eras.

    A client that calls again, or resends, in one era is counted as that, and as nothing else.
    """
    return {
        name: [each.era for each in found if each.model == model]
        for name, found in _by_client(report).items()
        if max((each.model for each in found), key=ORDER.index) == model
    }


def _by_client(report: Report) -> dict[str, list[Behaviour]]:
    found: dict[str, list[Behaviour]] = {}
    for each in behaviours(report):
        if not report.clients[each.client].is_ours:
            found.setdefault(each.client, []).append(each)
    return found


def takes_state_alone(report: Report, client: str) -> bool | None:
    """Return whether a client sends a state on that came without a question; None if not tried."""
    tried = [seen for seen in report.of(client, "modern") if seen.trouble == "state-only-twice"]
    if not tried:
        return None
    return all(seen.got == "result" and seen.says for seen in tried)
