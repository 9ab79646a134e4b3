"""The function that writes each generated part.

To add a table, add a line here and name it in a document. A part stands between two comments that
name it. `python -m documents` writes the parts that are made from runs and from kept explorations;
the others are written by the command that measures them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from documents import ROOT, advice, candidates, choosing, findings, front, suite, tables
from documents.api import api
from documents.tables import Runs
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.judge.grid import LOST_RESPONSES
from mrtr_options.terminal import with_parts
from scoreboard import board, rounds
from scoreboard.board import Scoreboard
from scoreboard.clients import models
from scoreboard.clients import page as clients
from scoreboard.clients.kept import Report as KeptClients
from scoreboard.clients.kept import read as read_clients
from scoreboard.conformance import report as conformance
from scoreboard.conformance.score import table as score
from scoreboard.cost import report as costs
from scoreboard.cost.lines import count_again
from scoreboard.frameworks import findings as of_frameworks
from scoreboard.frameworks import page as frameworks
from scoreboard.libraries import Library, answered
from scoreboard.proxies import page as proxies
from scoreboard.rows import Row
from scoreboard.servers import page as servers

T = TypeVar("T")

PARTS: dict[str, Callable[[], str]] = {
    "ways": front.ways,
    "options": front.options,
    "for SDKs": advice.for_sdks,
    "for the specification": advice.for_the_specification,
    "which": choosing.which,
    "questions": choosing.questions,
    "default": choosing.default,
    "candidates": candidates.compare_candidates,
    "author writes": tables.list_author_code,
    "guarantees": tables.compare_guarantees,
    "E against F": tables.diff_of_e_and_f,
    "kinds of fault": tables.kinds_of_fault,
    "deployments": tables.deployments,
    "rules": tables.rules,
    "refusals": tables.refusals,
    "api": api,
    "kinds of anomaly": tables.kinds_of_anomaly,
    "anomalies": tables.anomalies,
    **{f"{name}: shown": partial(findings.image_of, name) for name in findings.COUNTEREXAMPLES},
    **{
        f"{name}: reproduced": partial(findings.command_of, name)
        for name in findings.COUNTEREXAMPLES
    },
    **{
        f"{name}: affected": partial(findings.affected_subjects, name)
        for name in ("lost-final-response", "lost-first-response", "crash-after-effect")
    },
}
"""Parts that need no matrix."""

OF_RUNS: dict[str, Callable[[Runs], str]] = {
    "leading": tables.leading,
    "clean calls, modern": lambda runs: tables.rows(runs, *tables.CLEAN),
    "clean calls, legacy": lambda runs: tables.rows(runs, *tables.CLEAN, era="legacy"),
    "lost responses": lambda runs: tables.rows(runs, *LOST_RESPONSES),
    "duplicates and crashes": lambda runs: tables.rows(runs, *tables.AGAIN),
    "two instances": lambda runs: tables.rows(runs, *tables.ON_TWO, deployment="two"),
    "redeploys": tables.compare_redeploys,
    "redeploys, effects": lambda runs: tables.rows(runs, "redeploy-effect", "redeploy-effect-back"),
    "tasks": tables.tasks,
    "crash-after-effect: keys": findings.compare_keys,
    "questions-by-position: affected": findings.count_fates,
}
"""Parts that are made from the runs of the whole matrix."""


def renew_text(text: str, runs: Callable[[], Runs]) -> str:
    """Return a document with these parts written again.

    `runs` plays the whole matrix in memory; it is called only for parts that need it.
    """

    def part(name: str) -> str | None:
        if name in OF_RUNS:
            return OF_RUNS[name](runs())
        return PARTS[name]() if name in PARTS else None

    return re.sub(r"has \d+ schedules", f"has {len(SCHEDULES)} schedules", with_parts(text, part))


@dataclass(frozen=True)
class Source(Generic[T]):
    """The kept result of a command that measures, and the documents that show it.

    Attributes:
        read: Returns the kept result.
        pages: The documents that show it.
        parts: The function that writes each part. If it returns None, the part stays as it is.
        more: Writes the part of a name that is not in `parts`, such as one that names a run.
    """

    read: Callable[[], T]
    pages: Sequence[Path]
    parts: Mapping[str, Callable[[T], str | None]]
    more: Callable[[T, str], str | None] = lambda kept, name: None

    def renew_text(self, text: str, kept: T) -> str:
        """Return a document with these parts written again."""

        def part(name: str) -> str | None:
            return self.parts[name](kept) if name in self.parts else self.more(kept, name)

        return with_parts(text, part)

    def renew(self) -> None:
        """Write the parts again in every document that shows them."""
        kept = self.read()
        for page in self.pages:
            page.write_text(
                self.renew_text(page.read_text(encoding="utf-8"), kept), encoding="utf-8"
            )


SERVERS = Source[Scoreboard](
    board.read,
    (servers.PAGE, *servers.FINDINGS),
    {"servers, not built": servers.not_built},
    servers.run,
)

FRAMEWORKS = Source[Scoreboard](
    board.read,
    (servers.PAGE, *map(of_frameworks.page_of, of_frameworks.FINDINGS)),
    {
        "frameworks, cases": frameworks.cases,
        **{
            f"frameworks, {name}: {what}": partial(of_frameworks.part, write, found)
            for name, found in of_frameworks.FINDINGS.items()
            for what, write in (
                ("history", of_frameworks.history),
                ("affected", of_frameworks.affected),
                ("reproduced", of_frameworks.reproduced),
            )
        },
    },
)

ROWS = Source[Sequence[Row]](
    lambda: rounds.rows_of(*rounds.present()),
    (servers.PAGE,),
    {
        "servers, first": partial(rounds.board_table, "servers"),
        "frameworks, first": partial(rounds.board_table, "frameworks"),
    },
)

LIBRARIES = Source[Sequence[Library]](
    lambda: rounds.every_library(*rounds.present()), (servers.PAGE,), {"libraries": answered}
)

PROXIES = Source[Scoreboard](
    board.read,
    (proxies.PAGE,),
    {
        "proxies": proxies.by_fault,
        "proxies, carried": proxies.carried,
        "proxies, crossings": proxies.crossings,
        "proxies, versions": proxies.versions,
        "guards": proxies.guards,
    },
)

CLIENTS = Source[KeptClients](
    read_clients,
    (clients.PAGE, servers.PAGE, ROOT / "README.md"),
    {
        "clients": models.by_client,
        "clients, totals": models.totals,
        "clients, headline": models.headline,
        "clients, first": front.clients,
        "clients, charged": front.charges,
        "clients, lines": models.lines,
        "clients, refused": models.refused,
        "clients, resend": models.resend,
    },
)

CONFORMANCE = Source[conformance.Results](
    conformance.read,
    conformance.DOCUMENTS,
    {
        "conformance": conformance.by_server,
        "official-suite: affected": suite.beside_faults,
    },
)

SUITE_SCORE = Source[score.SuiteRuns](
    score.read,
    score.PAGES,
    {
        "suite score": score.numbers,
        "suite sections": score.scores,
        "suite servers": lambda kept: score.mutants(kept, "server"),
        "suite clients": lambda kept: score.mutants(kept, "client"),
        "suite other servers": score.others,
        "suite proposed idle": lambda kept: score.idle(kept, "proposed"),
        "suite idle": lambda kept: score.idle(kept, "server"),
        "suite idle clients": lambda kept: score.idle(kept, "client"),
        "suite correct": score.failed_by_correct,
        "suite unseen": lambda kept: score.unseen(),
    },
)

COSTS = Source[costs.Report](
    costs.read,
    costs.DOCUMENTS,
    {
        "costs": lambda kept: costs.with_notes(count_again(kept)),
        "engines": costs.engines_with_notes,
        "price": front.price,
    },
)

SOURCES: tuple[Source[Any], ...] = (
    SERVERS,
    FRAMEWORKS,
    ROWS,
    LIBRARIES,
    PROXIES,
    CLIENTS,
    CONFORMANCE,
    SUITE_SCORE,
    COSTS,
)
