"""The data of README's tables: every option with what one lost result does, and shipped clients.

The page shows the same data. Every cell comes from what an option declares, from kept runs, or from
the counted lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from documents import explored
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.check.compared import LOST_RESULT, NOT_TOLD, TOLD, TWICE, outcome_of
from mrtr_options.review.explore import NOT_TRIED
from mrtr_options.review.explore import summary as explore
from mrtr_options.review.judge.guarantees import guarantees_of
from mrtr_options.sdk.testing import Policy
from mrtr_options.terminal import markdown as table
from mrtr_options.tool.catalogue import DURABLE, Option, all_options, option_named
from mrtr_options.tool.guarantees import Guarantees
from mrtr_options.tool.notation import DEFAULT, titled
from mrtr_options.tool.sizes import Size, size_of
from scoreboard.clients.counts import (
    lost,
    made_again,
    number_shipped,
    shipped,
    twice_of,
    with_policy,
)
from scoreboard.clients.kept import Report
from scoreboard.clients.peers import RETRYING
from scoreboard.clients.server import TASKS
from scoreboard.clients.tables import resenders
from scoreboard.cost.report import Report as Costs

PAPERS = "ABCDEFGH"
"""The options of the design papers; the others are beyond them."""

HIDDEN = {
    "never": "no",
    "visible": "no",
    "hidden": "yes, safe",
    "unsafe": "yes, unsafe",
}
"""Hidden re-entry, by what an option declares of its re-execution."""

CONVERSATION = "the full conversation"
FALLBACK = "a fallback value or an error, as the author chooses"


@dataclass(frozen=True)
class Row:
    """One way to write the tool.

    Attributes:
        subject: As commands take it: "F", "default".
        name: Its name: "once (F)".
        option: Its option.
        is_in_papers: Whether the design papers have it.
        writes: The author's code, in a few words.
        does: The SDK's part, in a few words.
        size: The lines of the author and of the SDK.
        reentry: Whether the author's code runs again where its source does not show it.
        keeps: What the server keeps between two rounds.
        old_client: What a client of 2025-11-25 gets.
        lost: What one lost result does, by the client's policy.
    """

    subject: str
    name: str
    option: Option
    is_in_papers: bool
    writes: str
    does: str
    size: Size
    reentry: str
    keeps: str
    old_client: str
    lost: Mapping[str, str]


def options_table() -> list[Row]:
    """Return every way to write the tool: the papers', the others, and the default last."""
    rows = [_row_of(option) for option in all_options().values()]
    return [*sorted(rows, key=lambda row: not row.is_in_papers), _default()]


def _row_of(option: Option) -> Row:
    own = option.guarantees
    return Row(
        subject=option.letter,
        name=titled(option.letter),
        option=option,
        is_in_papers=option.letter in PAPERS,
        writes=own.writes if own else "",
        does=own.does if own else "",
        size=size_of(option),
        reentry=HIDDEN[own.reexecution] if own else "",
        keeps=_keeps(option, own) if own else "",
        old_client=_old_client(own) if own else "",
        lost=_lost(option.letter),
    )


def _default() -> Row:
    subject = subject_named("default")
    inner = _row_of(subject.option)
    own = guarantees_of(subject)
    assert own is not None
    return replace(
        inner,
        subject="default",
        name=f"{titled(DEFAULT)}: the default",
        writes=f"{inner.writes}; the argument that names the call",
        does=f"{inner.does}; answers a repeated round or call from a record; pushes an old client"
        " each question",
        size=size_of(subject.option, subject.wrappers),
        keeps="each response, in a shared store; an old client's connection",
        old_client=_old_client(own),
        lost=_lost(DEFAULT),
    )


def _keeps(option: Option, own: Guarantees) -> str:
    """Return what the server keeps; a client that is asked by push holds its connection open."""
    if "restart" not in own.survives:
        kept = "the open call, in its memory"
    elif option.extra == DURABLE:
        kept = "the call, in a database"
    elif own.asks_legacy:
        kept = "an old client's connection"
    else:
        kept = "nothing"
    return kept


def _old_client(own: Guarantees) -> str:
    return CONVERSATION if own.asks_legacy else FALLBACK


def _lost(subject: str) -> dict[str, str]:
    """Return what one lost result does with each client, from the kept rows."""
    rows = {row["policy"]: row for row in explored.read() if row["subject"] == subject}
    return {
        policy: _outcome_in(rows[policy]) if policy in rows else NOT_TRIED for policy in POLICIES
    }


def _outcome_in(row: explore.Row) -> str:
    """Return what the lost result does, from the sets of faults that show an anomaly."""
    shown = [
        anomaly
        for anomaly, sets in row["witnesses"].items()
        if any({*faults.split()} <= {LOST_RESULT} for faults in sets)
    ]
    return outcome_of(shown)


def ways() -> str:
    """Return a sentence on the number and the length of the options."""
    lines = [row.size.author for row in options_table()[:-1]]
    return f"{len(lines)} ways to write one tool, in {min(lines)} to {max(lines)} lines each."


def options() -> str:
    """Return README's table of all options."""
    rows = options_table()
    shown = [cells(row) for row in rows if row.is_in_papers]
    others = [cells(row) for row in rows if not row.is_in_papers]
    blank = ("*beyond the design papers*", *[""] * (len(HEADS) - 1))
    shared = size_of(option_named("F")).shared
    return "\n".join(
        [
            table(HEADS, [*shown, blank, *others]),
            "",
            f"Add {shared} shared lines to each count of the SDK's, except for the resolver (I),"
            " which `mcp` ships.",
        ]
    )


def price(report: Costs) -> str:
    """Return a sentence on the cost of the default, against F."""
    served = {each.subject: each.ratio.median for each in report.http if each.callers == 1}
    guarded = subject_named("default")
    once, default = size_of(option_named("F")), size_of(guarded.option, guarded.wrappers)
    return (
        f"It costs a shared store (SQLite or PostgreSQL), {default.own:,} lines of SDK where once"
        f" (F) needs {once.own} (both need {once.shared}\nmore), and"
        f" {served['default'] / served['F']:.1f} times the processor time of"
        " once (F) over HTTP ([costs](docs/results/COSTS.md))."
    )


HEADS = (
    "way to write the tool",
    "the author writes (lines)",
    "the SDK does (lines)",
    "hidden re-entry",
    "the server keeps",
    "an old client gets",
    *(f"result lost, the client {policy}" for policy in POLICIES),
)


def cells(row: Row) -> Sequence[str]:
    """Return a row of the table, in Markdown."""
    is_default = row.subject == "default"
    name = f"[{row.name}](mrtr_options/{row.option.path.name})"
    return (
        f"**{name}**" if is_default else name,
        f"{row.writes} ({row.size.author})",
        f"{row.does} ({row.size.own:,})",
        row.reentry,
        row.keeps,
        row.old_client,
        *row.lost.values(),
    )


REFUSED = " after a loss; {} of {} after a redirect or with a new access token"
"""The clients that send a request again after an answer that tells them to."""

DOES: dict[Policy, str] = {
    "stops": "stops, and reports an error or nothing",
    "calls again": "calls the tool again from its first question, by itself or through its model",
    "resends": "resends the lost request, with its answers",
}


def clients(report: Report) -> str:
    """Return README's table of shipped clients: how many do what, and what comes of it."""
    ways = options_table()
    alone, default = ways[:-1], ways[-1]
    heads = (
        "when a response is lost, the client",
        "shipped clients",
        f"if it was the result, its user with each of {len(alone)} options",
        "its user with the default",
    )
    rows: list[Sequence[str]] = []
    for policy, does in DOES.items():
        names = [*with_policy(report, policy)]
        number = f"{len(names)} of {number_shipped(report)}"
        switched = len([name for name in names if name.endswith(RETRYING)])
        if switched:
            number += f" ({switched} of them only with a setting)"
        if policy == "resends":
            tried, resent = resenders(report)
            number += REFUSED.format(len(resent), len(tried))
        outcomes = _outcomes([row.lost[policy] for row in alone])
        rows.append((does, number, outcomes, default.lost[policy]))
    return table(heads, rows)


def _outcomes(found: Sequence[str]) -> str:
    """Count outcomes: "charged twice (10 of 13); charged once and told (3 of 13)"."""
    counted = {each: found.count(each) for each in (TWICE, NOT_TOLD, TOLD) if each in found}
    return "; ".join(f"{each} ({number} of {len(found)})" for each, number in counted.items())


def charges(report: Report) -> str:
    """Return README's table of what shipped clients were charged, by server that all can call."""
    heads = (
        "the tool",
        "a response is lost: charged twice by what the client does",
        "the client reports the loss, and its application calls again: charged twice",
    )
    rows: list[Sequence[str]] = []
    for server in (each for each in report.servers if each != TASKS):
        runs = shipped(report, server)
        name = _default().name if server == "default" else titled(server)
        rows.append((name, twice_of(lost(runs)), twice_of(made_again(runs))))
    return table(heads, rows)
