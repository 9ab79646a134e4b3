"""The review of a built server: `check` from outside, and the results that are kept of its report.

Knows `check` and the servers; nothing of any library.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable

import anyio
from pydantic import BaseModel

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.history.narrate import line_of, narrate
from mrtr_options.review.bench.scenario import Fleet
from mrtr_options.review.check.breaches import Breach
from mrtr_options.review.check.review import Listeners
from mrtr_options.review.check.story import story
from mrtr_options.review.check.targets import CannotJudge, Extent, Report, check_url
from mrtr_options.review.explore.counterexamples import Explored, weakest_of
from scoreboard import today
from scoreboard.servers.peers import Peer, Probe, Unavailable, Variant, running
from scoreboard.used import Used

OLD_CALLS = ("clean-tokyo", "clean-springfield")
"""The calls of an old client whose results are kept."""

Told = Callable[[str], None]


class Broken(BaseModel):
    """A broken rule, with the smallest run that shows it.

    Attributes:
        rule: The name of the rule.
        allowed, came: The behaviour that the contract allows, and the server's behaviour.
        story: The run.
    """

    rule: str
    allowed: str
    came: str
    story: list[str]


class Tried(BaseModel):
    """The runs of a call under each single fault.

    Attributes:
        policy, fleet: The client's policy, and the routing of rounds to instances.
        histories: The number of runs.
        shown: The sets of faults that show each anomaly; "" is the empty set.
    """

    policy: str
    fleet: Fleet
    histories: int
    shown: dict[str, list[str]]


class Old(BaseModel):
    """A call of an old client in which nothing goes wrong.

    Attributes:
        outcome: The end of the call.
        says: The result's text, or the error's code and message.
        asked: The number of questions that its user saw.
        audits, bills: The numbers of effects.
    """

    outcome: str
    says: str
    asked: int
    audits: int
    bills: int


class CellRun(BaseModel):
    """The run of a cell of the first table.

    Attributes:
        date: The day of the run; empty for the day of the review.
        reaches: Whether a text of the tool's exception is in a response to the client.
        says: The text or the message of the last response.
        bills: The number of charges.
        history: The run, a line for each event.
    """

    date: str = ""
    reaches: bool = False
    says: str = ""
    bills: int = 0
    history: list[str]


class Life(BaseModel):
    """The largest age of a state, in seconds.

    Attributes:
        good: The age of the oldest state that was accepted.
        refused: The age of the youngest state that was refused; None if all were accepted.
    """

    good: int
    refused: int | None


class ServerReview(BaseModel):
    """The results of a server with some settings.

    Attributes:
        version: The version of its library.
        date: The day of the review.
        judged: The kind of the judgement, in words.
        runs, seconds, cpu_seconds: The number of runs, their time, and their processor time.
        holds: Whether it keeps the contract.
        breaks, departs: The broken rules. Departures do not count in the verdict.
        tried: The runs by client and routing. Histories are kept of the first.
        histories: The smallest history of each anomaly.
        old: The calls of an old client, by name; empty if it does not speak to old clients.
        longest_state: The length of the longest state, in bytes.
        life: The life of its states, by the clock; None if it was not measured.
        probes: The output of each probe, by name; for the default settings only.
        left_out: The number of runs that were left out, by reason.
        cells: The run of each cell of the first table; without those that the server cannot be
            asked for.
        cannot: The reason that there are no results; empty if there are.
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
    cells: dict[str, CellRun] = {}
    cannot: str = ""


async def review(peer: Peer, variant: Variant, tell: Told) -> ServerReview:
    """Review a built server, on two instances."""
    found = ServerReview(version=peer.version, date=today())
    began = Used.so_far()
    probes = dict[str, list[str]]()

    def begin(name: str, _: int = 0) -> None:
        tell(f"{peer.name} {variant.name}: {name}")

    begin("two instances to start")
    try:
        async with running(peer, variant) as there:
            report = await check_url(there.urls, there.ledger, Extent(), Listeners(begin))
            for probe in peer.probes if variant is peer.variants[0] else ():
                begin(probe.name)
                probes[probe.name] = await _printed(peer, probe, there.urls[0])
    except (Unavailable, CannotJudge) as error:
        found.cannot = str(error)
        return found
    took = Used.so_far() - began
    seen = taken(report)
    seen.version, seen.date, seen.probes = found.version, found.date, probes
    seen.seconds, seen.cpu_seconds = took.seconds, took.cpu_seconds
    return seen


async def _printed(peer: Peer, probe: Probe, url: str) -> list[str]:
    """Return the output of a probe in lines, with its errors."""
    env = os.environ | {"URL": url}
    done = await anyio.run_process(
        probe.command, cwd=peer.built, env=env, stderr=subprocess.STDOUT, check=False
    )
    return done.stdout.decode().splitlines()


def taken(report: Report) -> ServerReview:
    """Return the kept results of a report."""
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
    histories: dict[str, list[str]] = {}
    if explored:
        for name, sets in _tried(explored[0]).shown.items():
            least = weakest_of(sets)
            if least in report.histories:
                histories[name] = told(report.histories[least])
    return ServerReview(
        version="",
        date="",
        judged=report.judged,
        runs=report.runs,
        holds=report.holds,
        breaks=[_broken(each) for each in report.breaches],
        departs=[_broken(each) for each in report.departures],
        tried=[_tried(each) for each in explored],
        histories=histories,
        old=old,
        longest_state=report.longest_state,
        left_out=dict(report.left_out),
    )


def _broken(breach: Breach) -> Broken:
    problem = breach.problem
    return Broken(rule=breach.rule, allowed=problem.allowed, came=problem.came, story=story(breach))


def _tried(explored: Explored) -> Tried:
    found = explored.as_json()
    return Tried(
        policy=explored.scenario.setup.policy,
        fleet=explored.scenario.setup.fleet,
        histories=explored.histories,
        shown=found["witnesses"],
    )


def told(history: History) -> list[str]:
    """Return a history in lines, without the rows that belong to no request."""
    lines = map(line_of, narrate(history))
    return [line for line in lines if line is not None]
