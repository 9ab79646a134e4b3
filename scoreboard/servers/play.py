"""The review of a server that was built: `check` from outside, and what of its report is kept.

Knows `check` and the servers; nothing of any library.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel

from mrtr_options.bench.faults import Fleet
from mrtr_options.bench.history import History
from mrtr_options.bench.scenario import Policy
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.telling import tell as telling
from mrtr_options.judge.check import CannotJudge, Extent, Report, check_url
from mrtr_options.judge.counterexamples import Explored, weakest_of
from mrtr_options.judge.findings import Finding, story
from scoreboard.servers.peers import Peer, Unavailable, Variant, running

ROOT = Path(__file__).parents[2]
OLD_CALLS = ("clean-tokyo", "clean-springfield")
"""The calls of an old client that are kept."""

Told = Callable[[str], None]


class Broken(BaseModel):
    """A rule that is broken, with the smallest run that shows it.

    Attributes:
        rule: Its name.
        allowed, came: What the contract has there, and what the server did.
        story: The run.
    """

    rule: str
    allowed: str
    came: str
    story: list[str]


class Tried(BaseModel):
    """A call under each single fault.

    Attributes:
        policy, fleet: By which client, and to which instance rounds go.
        histories: How many runs.
        shown: For each anomaly the sets of faults that show it; "" for no fault.
    """

    policy: Policy
    fleet: Fleet
    histories: int
    shown: dict[str, list[str]]


class Old(BaseModel):
    """A call of an old client in which nothing goes wrong.

    Attributes:
        outcome: How it ended.
        says: The result's text, or the error's code and message.
        asked: How many questions its user saw.
        audits, bills: The effects.
    """

    outcome: str
    says: str
    asked: int
    audits: int
    bills: int


class Reviewed(BaseModel):
    """The results of a server with some settings.

    Attributes:
        version: Of its library.
        date: When, a day.
        judged: How, in words.
        runs, seconds: How many, and how long they took.
        holds: Whether it keeps the contract.
        breaks, departs: Rules; those that it departs from are no part of the verdict.
        tried: By each client and way to the instances; the first is the one whose histories are kept.
        histories: By anomaly, the smallest history of the first one.
        old: By call; empty where it does not speak to old clients.
        longest_state: In bytes.
        left_out: Why runs were not made, with their number.
        cannot: Why there is nothing else.
    """

    version: str
    date: str
    judged: str = ""
    runs: int = 0
    seconds: int = 0
    holds: bool = False
    breaks: list[Broken] = []
    departs: list[Broken] = []
    tried: list[Tried] = []
    histories: dict[str, list[str]] = {}
    old: dict[str, Old] = {}
    longest_state: int = 0
    left_out: dict[str, int] = {}
    cannot: str = ""


async def review(peer: Peer, variant: Variant, tell: Told) -> Reviewed:
    """Review a server that was built, on two instances."""
    today = datetime.now(UTC).date().isoformat()
    found = Reviewed(version=peer.version, date=today)
    began = time.monotonic()

    def begin(name: str) -> None:
        tell(f"{peer.name} {variant.name}: {name}")

    with scratch() as folder:
        ledger = folder / "effects.sqlite"
        tell(f"{peer.name} {variant.name}: two instances to start")
        try:
            async with running(peer, variant, ledger, 2, secrets.token_hex(32)) as urls:
                report = await check_url(urls, ledger, Extent(), begin)
        except (Unavailable, CannotJudge) as error:
            found.cannot = str(error)
            return found
    kept = taken(report)
    return kept.model_copy(
        update={
            "version": peer.version,
            "date": today,
            "seconds": round(time.monotonic() - began),
        }
    )


def taken(report: Report) -> Reviewed:
    """What is kept of a report."""
    explored = [each for each in (report.explored, *report.otherwise) if each is not None]
    old = {
        seen.schedule: Old(
            outcome=seen.outcome,
            says=seen.text or f"{seen.code or ''} {seen.message or ''}".strip(),
            asked=len(seen.questions),
            audits=seen.most("audit"),
            bills=seen.most("bill"),
        )
        for seen in report.observations
        if seen.schedule in OLD_CALLS and (seen.era, seen.deployment) == ("legacy", "one")
    }
    first = _tried(explored[0]) if explored else None
    return Reviewed(
        version="",
        date="",
        judged=report.judged,
        runs=report.runs,
        holds=report.holds,
        breaks=[_broken(each) for each in report.findings],
        departs=[_broken(each) for each in report.departures],
        tried=[_tried(each) for each in explored],
        histories={
            name: told(report.histories[least])
            for name, sets in (first.shown if first else {}).items()
            if (least := weakest_of(sets)) in report.histories
        },
        old=old,
        longest_state=report.longest_state,
        left_out=dict(report.left_out),
    )


def _broken(finding: Finding) -> Broken:
    problem = finding.problem
    return Broken(rule=finding.rule, allowed=problem.allowed, came=problem.came, story=story(finding))


def _tried(explored: Explored) -> Tried:
    found = explored.as_json()
    return Tried(
        policy=explored.scenario.setup.policy,
        fleet=explored.scenario.setup.fleet,
        histories=explored.histories,
        shown=found["witnesses"],
    )


def told(history: History) -> list[str]:
    """A history in lines, without what is of no request."""
    lines: list[str] = []
    for row in telling(history):
        match row.kind:
            case "request":
                lines.append(f"{row.number}. {row.text}")
            case "response":
                lines.append(f"   gets {row.text}" + (" (and never sees it)" if row.lost else ""))
            case "effect":
                lines.append(f"   effect: {row.text}")
            case "failure" | "crash" | "change" | "time":
                lines.append(f"   {row.text}")
            case _:
                pass
    return lines
