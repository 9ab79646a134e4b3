"""The function that writes each generated part.

To add a table, add a line here and name it in a document. A part stands between two comments that
name it. `python -m documents` writes the parts that are made from runs and from kept explorations;
the others are written by the command that measures them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TypeVar

from documents import advice, candidates, choosing, findings, front, suite, tables
from documents.api import api
from documents.tables import Runs
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.judge.grid import LOST_RESPONSES
from mrtr_options.terminal import with_parts
from scoreboard import board, rounds
from scoreboard.clients import tables as of_clients
from scoreboard.clients.kept import read as read_clients
from scoreboard.conformance import report as conformance
from scoreboard.conformance.score import table as score
from scoreboard.cost import report as costs
from scoreboard.cost.lines import count_again
from scoreboard.frameworks import findings as of_frameworks
from scoreboard.frameworks import page as frameworks
from scoreboard.libraries import answered
from scoreboard.proxies import page as proxies
from scoreboard.servers import page as servers

T = TypeVar("T")

PARTS: dict[str, Callable[[], str]] = {
    "ways": front.ways,
    "options": front.options,
    "for SDKs": lambda: advice.table_of(advice.FOR_SDKS),
    "for the specification": lambda: advice.table_of(advice.FOR_THE_SPECIFICATION),
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


def _made_of(
    read: Callable[[], T], parts: Mapping[str, Callable[[T], str]]
) -> dict[str, Callable[[], str]]:
    """Return parts that are made from one kept result; the first of them reads it."""
    kept = cache(read)
    return {name: lambda write=write: write(kept()) for name, write in parts.items()}


OF_KEPT: dict[str, Callable[[], str]] = {
    **_made_of(
        board.read,
        {
            "servers, not built": servers.not_built,
            "frameworks, cases": frameworks.cases,
            **{
                f"frameworks, {name}: {what}": partial(write, found)
                for name, found in of_frameworks.FINDINGS.items()
                for what, write in (
                    ("history", of_frameworks.history),
                    ("affected", of_frameworks.affected),
                    ("reproduced", of_frameworks.reproduced),
                )
            },
            "proxies": proxies.by_fault,
            "proxies, carried": proxies.carried,
            "proxies, crossings": proxies.crossings,
            "proxies, versions": proxies.versions,
            "guards": proxies.guards,
        },
    ),
    **_made_of(
        lambda: rounds.rows_of(rounds.read_board()),
        {
            "servers, first": partial(rounds.board_table, "servers"),
            "frameworks, first": partial(rounds.board_table, "frameworks"),
        },
    ),
    **_made_of(lambda: rounds.every_library(rounds.read_board()), {"libraries": answered}),
    **_made_of(
        read_clients,
        {
            "clients": of_clients.by_client,
            "clients, totals": of_clients.totals,
            "clients, headline": of_clients.headline,
            "clients, first": front.clients,
            "clients, charged": front.charges,
            "clients, lines": of_clients.lines,
            "clients, refused": of_clients.refused,
            "clients, resend": of_clients.resend,
        },
    ),
    **_made_of(
        conformance.read,
        {
            "conformance": conformance.by_server,
            "official-suite: affected": suite.beside_faults,
        },
    ),
    **_made_of(
        score.read,
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
    ),
    **_made_of(
        costs.read,
        {
            "costs": lambda kept: costs.with_notes(count_again(kept)),
            "engines": costs.engines_with_notes,
            "price": front.price,
        },
    ),
}
"""Parts that are made from the kept results of commands that measure.

The run of a cell is one, too: its part is named `run: ` and the cell's address.
"""


def renew_text(text: str, runs: Callable[[], Runs]) -> str:
    """Return a document with the parts written again that are made from runs.

    `runs` plays the whole matrix in memory; it is called only for parts that need it.
    """

    def part(name: str) -> str | None:
        if name in OF_RUNS:
            return OF_RUNS[name](runs())
        return PARTS[name]() if name in PARTS else None

    return re.sub(r"has \d+ schedules", f"has {len(SCHEDULES)} schedules", with_parts(text, part))


def renew_kept(text: str) -> str:
    """Return a document with the parts written again that are made from kept results."""

    def part(name: str) -> str | None:
        if name in OF_KEPT:
            return OF_KEPT[name]()
        run = rounds.runs_of(board.read()).get(name.removeprefix("run: "))
        return None if run is None else "\n".join(("```text", *run, "```"))

    return with_parts(text, part)
