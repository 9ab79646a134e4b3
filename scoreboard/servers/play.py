"""The review of a server that was built: `check` from outside, and what of its report is kept.

Knows `check` and the servers; nothing of any library.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime

import anyio
from pydantic import BaseModel

from mrtr_options.review.bench.faults import Fleet
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Policy
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.telling import CLIENT
from mrtr_options.review.bench.telling import tell as telling
from mrtr_options.review.check.check import CannotJudge, Extent, Report, check_url
from mrtr_options.review.check.findings import Finding
from mrtr_options.review.check.story import story
from mrtr_options.review.explore.counterexamples import Explored, weakest_of
from scoreboard.servers.peers import Peer, Probe, Unavailable, Variant, running
from scoreboard.used import Used

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


class Life(BaseModel):
    """How old a state may be, in seconds.

    Attributes:
        good: The oldest that was taken.
        refused: The youngest that was not; None where all were taken.
    """

    good: int
    refused: int | None


class Reviewed(BaseModel):
    """The results of a server with some settings.

    Attributes:
        version: Of its library.
        date: When, a day.
        judged: How, in words.
        runs, seconds, cpu_seconds: How many, how long they took, and what of it processors worked.
        holds: Whether it keeps the contract.
        breaks, departs: Rules; those that it departs from are no part of the verdict.
        tried: By each client and way to the instances; the first is the one whose histories are
            kept.
        histories: By anomaly, the smallest history of the first one.
        old: By call; empty where it does not speak to old clients.
        longest_state: In bytes.
        life: Of its states, by the clock; None where that was not measured.
        probes: What each printed, by name; of the default settings.
        left_out: Why runs were not made, with their number.
        cannot: Why there is nothing else.
    """

    version: str
    date: str
    judged: str = ""
    runs: int = 0
    seconds: int = 0
    cpu_seconds: int = 0
    holds: bool = False
    breaks: list[Broken] = []
    departs: list[Broken] = []
    tried: list[Tried] = []
    histories: dict[str, list[str]] = {}
    old: dict[str, Old] = {}
    longest_state: int = 0
    life: Life | None = None
    probes: dict[str, list[str]] = {}
    left_out: dict[str, int] = {}
    cannot: str = ""


async def review(peer: Peer, variant: Variant, tell: Told) -> Reviewed:
    """Review a server that was built, on two instances."""
    today = datetime.now(UTC).date().isoformat()
    found = Reviewed(version=peer.version, date=today)
    began = Used.so_far()
    probes = dict[str, list[str]]()

    def begin(name: str, _: int = 0) -> None:
        tell(f"{peer.name} {variant.name}: {name}")

    with scratch() as folder:
        ledger = folder / "effects.sqlite"
        begin("two instances to start")
        try:
            async with running(peer, variant, ledger, 2, secrets.token_hex(32)) as urls:
                report = await check_url(urls, ledger, Extent(), begin)
                for probe in peer.probes if variant is peer.variants[0] else ():
                    begin(probe.name)
                    probes[probe.name] = await _printed(peer, probe, urls[0])
        except (Unavailable, CannotJudge) as error:
            found.cannot = str(error)
            return found
    took = Used.so_far() - began
    return taken(report).model_copy(
        update={
            "version": peer.version,
            "date": today,
            "seconds": took.seconds,
            "cpu_seconds": took.cpu_seconds,
            "probes": probes,
        }
    )


async def _printed(peer: Peer, probe: Probe, url: str) -> list[str]:
    """What a probe prints, or why it prints nothing, in lines."""
    env = os.environ | {"URL": url}
    done = await anyio.run_process(
        probe.command, cwd=peer.built, env=env, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode().splitlines()


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
    return Broken(
        rule=finding.rule, allowed=problem.allowed, came=problem.came, story=story(finding)
    )


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
            case "question" | "answer" if CLIENT not in (
                row.start,
                row.end,
            ):  # pushed to an old client
                lines.append(f"   {row.label}")
            case "failure" | "crash" | "change" | "time":
                lines.append(f"   {row.text}")
            case _:
                pass
    return lines
