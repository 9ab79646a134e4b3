"""Every case on a framework that was built, and what of it is kept.

Knows the cases, the programs and the judge; nothing of any library.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import UTC, datetime

import anyio
from pydantic import BaseModel

from mrtr_options.review.bench.history import History, Received, Sent
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.judge.anomalies import ANOMALIES, found
from mrtr_options.review.judge.reading import Reading
from mrtr_options.tool.catalogue import Option
from scoreboard.frameworks.cases import ATTACKS, Case, bills_elsewhere, cases_for
from scoreboard.frameworks.frameworks import Framework, Variant
from scoreboard.frameworks.programs import Programs
from scoreboard.servers.play import Told, told

AT_ONCE = 4
"""How many cases are played at the same time."""


class Played(BaseModel):
    """How a case went.

    Attributes:
        end: What the client was left with: a result, an error, a question, or nothing.
        says: The result's text, or the error's.
        audits, bills: The effects.
        shown: The anomalies of its history, by name.
        taken: Of an attack that was made: whether the framework went on from the pause. Else None.
        history: The run, a line for each thing that happened.
    """

    end: str
    says: str
    audits: int
    bills: int
    shown: list[str]
    taken: bool | None = None
    history: list[str]


class Reviewed(BaseModel):
    """The results of one way to write the tool.

    Attributes:
        version: Of the framework.
        date: When, a day.
        seconds: How long it took.
        processes: How many deliveries were made.
        lines: Of its source file.
        cases: By name.
    """

    version: str
    date: str
    seconds: int = 0
    processes: int = 0
    lines: int = 0
    cases: dict[str, Played] = {}


async def review(
    framework: Framework, variant: Variant, tell: Told, only: Collection[str] | None = None
) -> Reviewed:
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
            where = Programs(framework, variant, case.slow)
            subject = Subject(Option("?", framework.name, framework.folder))
            history = await run(subject, case.scenario, where, client=case.client)
            processes += where.processes
            played[case.name] = taken(case, history)

    async with anyio.create_task_group() as group:
        for case in cases:
            group.start_soon(one, case)
    return Reviewed(
        version=framework.version,
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(time.monotonic() - began),
        processes=processes,
        lines=_lines(framework, variant),
        cases={case.name: played[case.name] for case in cases},
    )


def _lines(framework: Framework, variant: Variant) -> int:
    own = (path for path in framework.sources if path.name in variant.start)
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in own)


def taken(case: Case, history: History) -> Played:
    """What is kept of a run."""
    reading = Reading(history)
    end = reading.end
    kinds = {
        "result": end.is_result,
        "error": end.code is not None,
        "question": bool(end.questions),
    }
    shown = found(history)
    return Played(
        end=next((kind for kind, holds in kinds.items() if holds), "nothing"),
        says=end.text or end.message or "",
        audits=reading.effects("audit").total(),
        bills=reading.effects("bill").total(),
        shown=[each.name for each in ANOMALIES if each.name in shown],
        taken=_is_taken(case, history) if case.name in ATTACKS else None,
        history=told(history),
    )


def _is_taken(case: Case, history: History) -> bool | None:
    """Whether a request with a made-up pause, or that of another user's call, got no error, or an
    edited one billed what was written into it; None if the call ended before there was one.
    """
    whose: dict[str, str | None] = {}
    sent: dict[int, str | None] = {}
    attacks: set[int] = set()
    for event in history.events:
        if isinstance(event, Sent):
            state, who = event.request.state, event.request.principal
            sent[event.exchange] = who
            if event.request.forged or (state and whose.get(state, who) != who):
                attacks.add(event.exchange)
        elif isinstance(event, Received) and event.reply.state is not None:
            whose.setdefault(event.reply.state, sent[event.exchange])
    replies = [got.reply for _, got in history.exchanges if got.exchange in attacks]
    if case.name == "edited" and replies:
        return any(map(bills_elsewhere, history.events))
    return any(not reply.failed for reply in replies) if replies else None
