"""Counts of the kept runs of clients: the model of each client, its users' charges and errors.

Knows the kept runs. Everything here is counted from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Literal

from mrtr_options.review.bench.setup import ERAS, Era
from scoreboard.clients.kept import Report
from scoreboard.clients.play import Seen
from scoreboard.clients.troubles import TROUBLES

Model = Literal["stops", "calls again", "resends"]
"""The client's reaction to a lost response.

It stops and tells the application of an error; it calls the tool again, from scratch; or it sends
the lost request again.
"""

ORDER: tuple[Model, ...] = ("stops", "calls again", "resends")
"""The models, from the one that does least to the one that does most."""


@dataclass(frozen=True)
class Behaviour:
    """The reactions of one client, of its own accord, to responses lost over HTTP.

    Attributes:
        client: The name of the client.
        era: The era that it spoke.
        lost: The number of calls that lost a response.
        resent: Of these, the calls in which it sent a lost round again.
        called_again: The calls in which it called the tool again.
        told: The calls in which it did neither, and told the application of an error.
        hung: The calls in which it did neither, and told nothing.
        dead: The calls after which the same client object was of no use.
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
        """The client's model: what it did at least once."""
        if self.resent:
            return "resends"
        return "calls again" if self.called_again else "stops"


@dataclass(frozen=True)
class Charged:
    """Numbers of calls by their charges, and by what the user got.

    Attributes:
        calls: All calls.
        twice: The calls that charged the user twice or more.
        told_of_error: The calls that charged once, and told the user of an error.
        hung: The calls that charged once, and told the user nothing.
        once: The calls that charged once, and gave the user the result.
        nothing: The calls that charged nothing.
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
    """Return whether the call failed, and the client was of no use afterwards."""
    if seen.got in ("client error", "died"):
        return not seen.usable
    return seen.got == "error" and seen.usable is False


def lost(runs: Iterable[Seen]) -> list[Seen]:
    """Return the runs in which a response is lost and the application does nothing."""
    return [seen for seen in runs if TROUBLES[seen.trouble].loses]


def made_again(runs: Iterable[Seen]) -> list[Seen]:
    """Return the runs in which a response is lost, and the application then calls again."""
    return [seen for seen in runs if seen.made_again]


def behaviour(report: Report, client: str, era: Era) -> Behaviour:
    """Return a client's own reactions, counted with one server, over HTTP."""
    runs = [seen for seen in lost(report.of(client, era)) if seen.requests is not None]
    idle = [seen for seen in runs if not seen.again and not seen.anew]
    return Behaviour(
        client,
        era,
        lost=len(runs),
        resent=len([seen for seen in runs if seen.again > 0]),
        called_again=len([seen for seen in runs if seen.anew > 0]),
        told=len([seen for seen in idle if seen.got not in ("result", "nothing")]),
        hung=len([seen for seen in idle if seen.got == "nothing"]),
        dead=len([seen for seen in runs if is_dead(seen)]),
    )


def behaviours(report: Report) -> list[Behaviour]:
    """Return each client's own reactions, in each era that it speaks."""
    return [behaviour(report, name, era) for name, era in spoken(report)]


def spoken(report: Report) -> Iterator[tuple[str, Era]]:
    """Yield each client with each era in which it was run."""
    for name in report.clients:
        for era in ERAS:
            if report.of(name, era):
                yield name, era


def shipped(report: Report, server: str) -> list[Seen]:
    """Return the runs of all shipped clients with one server."""
    return [
        seen
        for seen in report.seen
        if seen.server == server and not report.clients[seen.client].is_ours
    ]


def of_model(report: Report, model: Model) -> dict[str, list[Era]]:
    """Return the shipped clients that are of one model in some era, with these eras.

    A client that calls again or resends in only one era still counts as that model, and only that.
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
    """Return whether a client sends on a state that came without a question; None if not tried."""
    tried = [seen for seen in report.of(client, "modern") if seen.trouble == "state-only-twice"]
    if not tried:
        return None
    return all(seen.got == "result" and seen.says for seen in tried)
