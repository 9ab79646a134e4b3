"""Counts of the kept runs of clients: the policy of each client, its users' charges and errors.

Knows the kept runs. Everything here is counted from them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from mrtr_options.review.bench.messages import ERAS, Era
from mrtr_options.sdk.testing import POLICIES, Policy
from scoreboard.clients.kept import Report
from scoreboard.clients.play import Seen
from scoreboard.clients.troubles import TROUBLES

ENDINGS = (
    "charged twice",
    "charged, told of an error",
    "charged, told nothing",
    "charged once, result",
    "not charged",
)
"""What calls come to for the user; "twice" is more than once."""


def charges(runs: Iterable[Seen]) -> Counter[str]:
    """Count the calls that came to each of `ENDINGS`."""
    return Counter(map(_ending, runs))


def _ending(seen: Seen) -> str:
    twice, told, hung, once, nothing = ENDINGS
    bills = seen.bills or 0
    if bills > 1:
        return twice
    if not bills:
        return nothing
    return {"result": once, "nothing": hung}.get(seen.got, told)


def twice_of(runs: Iterable[Seen]) -> str:
    """Return how many calls charged the user twice or more, as in "2 of 7"."""
    found = charges(runs)
    return f"{found[ENDINGS[0]]} of {found.total()}"


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


def _does_nothing(seen: Seen) -> bool:
    """Return whether the client sent nothing again."""
    return not seen.again and not seen.anew


REACTIONS: dict[str, Callable[[Seen], bool]] = {
    "responses lost over HTTP": lambda seen: True,
    "sent again": lambda seen: seen.again > 0,
    "called again": lambda seen: seen.anew > 0,
    "told of an error": lambda seen: _does_nothing(seen) and seen.got not in ("result", "nothing"),
    "told nothing": lambda seen: _does_nothing(seen) and seen.got == "nothing",
    "client of no use afterwards": is_dead,
}
"""What a client does of its own accord in a call that loses a response, in the words of a table."""

Behaviour = dict[str, int]
"""The number of calls with each of `REACTIONS`."""


def behaviour(report: Report, client: str, era: Era) -> Behaviour:
    """Return a client's own reactions, counted with one server, over HTTP."""
    runs = [seen for seen in lost(report.of(client, era)) if seen.requests is not None]
    return {name: [*map(holds, runs)].count(True) for name, holds in REACTIONS.items()}


def policy_of(found: Behaviour) -> Policy:
    """Return the client's policy: what it did at least once."""
    if found["sent again"]:
        return "resends"
    return "calls again" if found["called again"] else "stops"


def behaviours(report: Report) -> dict[tuple[str, Era], Behaviour]:
    """Return each client's own reactions, in each era that it speaks."""
    return {each: behaviour(report, *each) for each in spoken(report)}


def spoken(report: Report) -> Iterator[tuple[str, Era]]:
    """Yield each client with each era in which it was run."""
    for name in report.clients:
        for era in ERAS:
            if report.of(name, era):
                yield name, era


def shipped(report: Report, server: str, era: Era | None = None) -> list[Seen]:
    """Return the runs of all shipped clients with one server, in one era or in both."""
    return [
        seen
        for seen in report.seen
        if seen.server == server and era in (None, seen.era)
        if not report.clients[seen.client].is_ours
    ]


def number_shipped(report: Report) -> int:
    """Return the number of shipped clients."""
    return [each.is_ours for each in report.clients.values()].count(False)


def with_policy(report: Report, policy: Policy) -> dict[str, list[Era]]:
    """Return the shipped clients that have a policy in some era, with these eras.

    A client that calls again or resends in only one era has that policy here, and only that.
    """
    policies: dict[str, dict[Era, Policy]] = {}
    for (client, era), found in behaviours(report).items():
        if not report.clients[client].is_ours:
            policies.setdefault(client, {})[era] = policy_of(found)
    return {
        client: [era for era, each in found.items() if each == policy]
        for client, found in policies.items()
        if max(found.values(), key=POLICIES.index) == policy
    }


def takes_state_alone(report: Report, client: str) -> bool | None:
    """Return whether a client sends on a state that came without a question; None if not tried."""
    tried = [seen for seen in report.of(client, "modern") if seen.trouble == "state-only-twice"]
    if not tried:
        return None
    return all(seen.got == "result" and seen.says for seen in tried)
