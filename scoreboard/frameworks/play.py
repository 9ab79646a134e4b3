"""Plays every case on a framework that was built, and makes the results that are kept.

Knows the cases, the programs and the judge; nothing of any library.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Literal

import anyio
from pydantic import BaseModel

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.messages import Reply
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.anomalies import in_order
from mrtr_options.review.judge.facts import HistoryReading, anomalies_in
from mrtr_options.tool.catalogue import Option
from scoreboard import today
from scoreboard.frameworks.cases import ATTACKS, Case, bills_elsewhere, cases_for
from scoreboard.frameworks.frameworks import Framework, Variant
from scoreboard.frameworks.programs import PARKED, Afterwards, Programs
from scoreboard.servers.play import Told, told

AT_ONCE = 4
"""The number of cases that are played at the same time."""

RACES = 10
"""The number of runs of a case whose outcome depends on which process is first."""

End = Literal["result", "readable", "parked", "refused", "lost", "limitation", "unread", "question"]
"""The fate of a call.

- "result": the client has the result.
- "readable": the client has no result, but reading the call returns it.
- "parked": the framework keeps the call for other processes.
- "refused": the framework refused the request, and the call still waits.
- "lost": the client has no result, and reading the call returns none.
- "limitation": our own program failed, so nothing is known.
- "unread": the client got an error, and the call was not read.
- "question": a question is open.
"""


class Played(BaseModel):
    """The run of a case.

    Attributes:
        end: The last response to the client: a result, an error, a question, or nothing.
        fate: The fate of the call.
        read: The result of reading the call afterwards; empty if it was not read.
        date: The day of the run; empty for the day of the whole review.
        times: For a race, the number of runs with each count of audits and bills.
        says: The text of the result or the error.
        audits, bills: The numbers of effects.
        shown: The names of the anomalies in its history.
        taken: For an attack, whether the framework went on from the pause; otherwise None.
        history: The run, a line for each event.
    """

    end: str
    fate: End
    read: str = ""
    date: str = ""
    times: dict[str, int] = {}
    says: str
    audits: int
    bills: int
    shown: list[str]
    taken: bool | None = None
    history: list[str]


class FrameworkReview(BaseModel):
    """The results of one way to write the tool.

    Attributes:
        version: The version of the framework.
        date: The day of the review.
        seconds: The time that it took.
        processes: The number of deliveries.
        lines: The number of lines of its source file.
        cases: The run of each case, by name.
    """

    version: str
    date: str
    seconds: int = 0
    processes: int = 0
    lines: int = 0
    cases: dict[str, Played] = {}


async def review(
    framework: Framework, variant: Variant, tell: Told, only: Collection[str] | None = None
) -> FrameworkReview:
    """Play every case, or only some by name, on a framework that was built."""
    began = time.monotonic()
    cases = [case for case in cases_for(variant.carries) if only is None or case.name in only]
    played: dict[str, Played] = {}
    processes = 0
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(case: Case) -> None:
        nonlocal processes
        async with limit:
            tell(f"{framework.name}, {variant.name}: {case.name}")
            runs: list[Played] = []
            for _ in range(RACES if case.slow else 1):
                where = Programs(framework, variant, case.slow)
                subject = Subject(Option("?", framework.name, framework.folder))
                history = await run(subject, case.scenario, where, client=case.client)
                processes += where.processes
                runs.append(taken(case, history, where.ours, where.afterwards))
            played[case.name] = of_races(runs) if case.slow else runs[0]

    async with anyio.create_task_group() as group:
        for case in cases:
            group.start_soon(one, case)
    return FrameworkReview(
        version=framework.version,
        date=today(),
        seconds=round(time.monotonic() - began),
        processes=processes,
        lines=_lines(framework, variant),
        cases={case.name: played[case.name] for case in cases},
    )


def _lines(framework: Framework, variant: Variant) -> int:
    own = (path for path in framework.sources if path.name in variant.start)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in own)


def of_races(runs: Sequence[Played]) -> Played:
    """Return the run that charged most often, with how often each outcome occurred."""
    worst = max(runs, key=lambda each: (each.bills, len(each.shown)))
    times = Counter(f"{each.audits}/{each.bills}" for each in runs)
    return worst.model_copy(update={"times": dict(times.most_common())})


NOT_THE_END = {"charged, told of an error", "call lost"}
"""Anomalies that count only if the call is over: it may be readable, parked, or still waiting."""


def fate_of(end: str, last: Reply, ours: Sequence[str], read: Afterwards | None) -> End:
    """Return the fate of a call; an error of our own program proves nothing about the framework."""
    if ours:
        return "limitation"
    if end in ("result", "question"):
        return end
    parked = (last.message or "").startswith(PARKED)
    if parked or (read is not None and read.what == "parked"):
        return "parked"
    if read is None or read.what == "unread":
        return "unread"
    fates: dict[str, End] = {"result": "readable", "question": "refused", "error": "lost"}
    return fates[read.what]


def shown_by(history: History, fate: End) -> list[str]:
    """Return the anomalies of a run; none if our own program failed."""
    if fate == "limitation":
        return []
    if fate == "result":
        left_out = {"charged, told of an error"}
    elif fate in ("question", "lost"):
        left_out = set[str]()
    else:
        left_out = NOT_THE_END
    return in_order(anomalies_in(history) - left_out)


def taken(
    case: Case, history: History, ours: Sequence[str] = (), read: Afterwards | None = None
) -> Played:
    """Return the kept results of a run, with the effects while the call was read afterwards."""
    late = read.effects if read else ()
    lines = [*told(history), *_read_lines(read)]
    history = replace(history, events=(*history.events, *late))
    reading = HistoryReading(history)
    end = reading.end
    kinds = {
        "result": end.is_result,
        "error": end.code is not None,
        "question": bool(end.questions),
    }
    kind = next((kind for kind, holds in kinds.items() if holds), "nothing")
    fate = fate_of(kind, end, ours, read)
    return Played(
        end=kind,
        fate=fate,
        read=f"{read.what}: {read.says}".removesuffix(": ") if read else "",
        date=today(),
        says=end.text or end.message or "",
        audits=reading.effects("audit").total(),
        bills=reading.effects("bill").total(),
        shown=shown_by(history, fate),
        taken=_is_taken(case, history) if case.name in ATTACKS else None,
        history=lines,
    )


def _read_lines(read: Afterwards | None) -> list[str]:
    """Return the lines of the history about reading the call."""
    if read is None or read.what == "unread":
        return []
    effects = [f"   effect: {each.effect.kind} of {each.effect.subject!r}" for each in read.effects]
    return [f"afterwards the call is read: {read.what} {read.says!r}", *effects]


def _is_taken(case: Case, history: History) -> bool | None:
    """Return whether an attack succeeded; None if the call ended before the attack.

    A request with a made-up pause, or with a pause of another user's call, succeeds without an
    error. An edited pause succeeds if the forged place is billed.
    """
    whose: dict[str, str | None] = {}
    replies: list[Reply] = []
    for sent, got in history.exchanges:
        state = sent.request.state
        who = sent.request.principal
        if sent.request.forged or (state and whose.get(state, who) != who):
            replies.append(got.reply)
        if got.reply.state is not None:
            whose.setdefault(got.reply.state, who)
    if case.name == "edited" and replies:
        return any(map(bills_elsewhere, history.events))
    return any(not reply.failed for reply in replies) if replies else None
