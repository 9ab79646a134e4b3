"""The kept runs of clients in words: for the terminal, docs/results/CLIENTS.md and the page.

Knows the kept runs and their counts; nothing of any client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from mrtr_options.review.bench.messages import ERAS, Era
from mrtr_options.tool.notation import titled
from scoreboard.clients.counts import (
    ENDINGS,
    charges,
    is_dead,
    lost,
    made_again,
    shipped,
    spoken,
)
from scoreboard.clients.kept import About, Report
from scoreboard.clients.play import LIMIT_SECONDS, Seen
from scoreboard.clients.troubles import TROUBLES, Trouble
from scoreboard.rows import Runs

GUARDED = "F+guard"
"""The second server with which our own client is shown."""

TWICE = "‼"
"""The mark of a cell: the user was charged twice."""

DEAD = "☠"
"""The mark of a cell: the client was of no use afterwards."""

HANGS = "⏳"
"""The mark of a cell: the application was told nothing."""

CHARGED = "⚠"
"""The mark of a cell: the user was charged, and told of an error."""


# --- words --------------------------------------------------------------------------------------


def sends(seen: Seen) -> str:
    """Return the requests that the client sent once more, in words."""
    same_id = ", same id" if seen.same_id else ""
    parts = (
        (seen.again, f"resends the round, {seen.again}×{same_id}"),
        (seen.anew, f"calls again, {seen.anew}×{same_id}"),
        (seen.resumed, f"resumes the stream, {seen.resumed}×"),
    )
    words = "; ".join(part for count, part in parts if count)
    return words or ("?" if seen.requests is None else "no")


def gets(seen: Seen) -> str:
    """Return how the call ended for the application, without an error's text."""
    name, _, text = seen.says.partition(": ")
    match seen.got:
        case "result":
            return "result" if seen.says else "empty result"
        case "tool error":
            return f"tool error: {seen.says}"
        case "error":
            return name or text
        case "client error":
            return f"{name}, raised outside the call"
        case "nothing":
            return f"nothing in {LIMIT_SECONDS:.0f} s"
        case "died":
            return f"the program ended: {seen.says}"


def after(seen: Seen) -> str:
    """Return the time after which the call ended, in words."""
    return "soon" if not seen.seconds else f"{seen.seconds} s"


def usable(seen: Seen) -> str:
    """Return whether the client was of use afterwards, in a word."""
    if seen.usable is None:
        return "no" if is_dead(seen) else "?"
    return "yes" if seen.usable else "no"


def ledger(seen: Seen) -> str:
    """Return the counts of audits and bills."""
    return "" if seen.audits is None else f"{seen.audits}/{seen.bills}"


def mark(seen: Seen) -> str:
    """Return the mark of the worst outcome, or nothing."""
    bills = seen.bills or 0
    if bills > 1:
        return TWICE
    if is_dead(seen):
        return DEAD
    if seen.got == "nothing":
        return HANGS
    return CHARGED if bills and seen.got != "result" else ""


def cell(seen: Seen) -> str:
    """Return the whole run in a few words."""
    words = _ended(seen)
    if seen.again or seen.anew:
        words += ", resent" if seen.again else ", called again"
    if (seen.bills or 0) > 1:
        words = f"charged twice: {words}"
    return " ".join(filter(None, (mark(seen), words, ledger(seen))))


def _ended(seen: Seen) -> str:
    """Return how the call ended, in a word or two."""
    if seen.got == "nothing":
        return "hangs"
    words = "dead" if is_dead(seen) else seen.got
    if seen.got == "result" and not seen.says:
        words = "empty result"
    return f"{words} {seen.seconds} s" if seen.seconds else words


COLUMNS: dict[str, Callable[[Seen], str]] = {
    "sends more": sends,
    "the application gets": gets,
    "after": after,
    "usable": usable,
    "requests": lambda seen: "?" if seen.requests is None else str(seen.requests),
    "asked": lambda seen: str(seen.asked),
    "audits/bills": ledger,
}
"""The columns of a client's table: the text of each run."""


# --- runs by address ----------------------------------------------------------------------------


def head(about: About) -> str:
    """Return the head of a client's column, as plain text: its title, its version and the date."""
    return f"{about.title} {about.version}, {about.date}".replace("`", "")


def anchor(title: str) -> str:
    """Return the anchor that a heading with this title would have."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def addresses(report: Report) -> dict[str, str]:
    """Return the address of the runs of each client and era, by its head and the era."""
    return {
        f"{head(report.clients[name])}, {era}": f"clients/{name}/{era}"
        for name, era in spoken(report)
    }


def runs(report: Report) -> Runs:
    """Return every run by its address; a run with another server than the first has its name."""
    found: Runs = {}
    for seen in report.seen:
        address = f"clients/{seen.client}/{seen.era}/{seen.trouble}"
        if seen.server != report.first_server:
            address += f"/{seen.server}"
        found.setdefault(address, []).extend(_lines(seen))
    return found


def _lines(seen: Seen) -> list[str]:
    """Return the requests and responses of a call, a line for each, and what came of it."""
    return [*seen.history, "; ".join(f"{name}: {said(seen)}" for name, said in COLUMNS.items())]


def history(report: Report, seen: Seen) -> str:
    """Return a run with its title, as the terminal shows it."""
    title = f"{head(report.clients[seen.client])}, {seen.era}, {report.servers[seen.server]}"
    return "\n  ".join((f"{title}, {seen.trouble}:", *_lines(seen)))


# --- tables of the page -------------------------------------------------------------------------

Cells = list[list[str]]
"""The rows of a table, its head first."""


def overview(report: Report, era: Era) -> Cells:
    """Return a table with a row for each trouble, and a column for each client of this era.

    The server is the first one. Our own client has a second column, with F in the guard.
    """
    columns: dict[str, dict[str, Seen]] = {}
    for name, spoke in spoken(report):
        if spoke == era:
            about = report.clients[name]
            columns[head(about)] = _by_trouble(report.of(name, era))
            if about.is_ours:
                guarded = _by_trouble(report.of(name, era, GUARDED))
                columns[f"{head(about)}, server in the guard"] = guarded
    rows = [["what happens", *columns]]
    for trouble in TROUBLES.values():
        found = [column.get(trouble.name) for column in columns.values()]
        if any(found):
            rows.append([_named(trouble), *("" if seen is None else cell(seen) for seen in found)])
    return rows


def _by_trouble(seen: Sequence[Seen]) -> dict[str, Seen]:
    return {each.trouble: each for each in seen}


def _named(trouble: Trouble) -> str:
    return f"{trouble.says.removesuffix('.')} ({trouble.name})".replace("`", "")


OUTCOMES = (
    "lost responses",
    f"{TWICE} charged twice",
    f"{CHARGED} charged, told of an error",
    f"{HANGS} charged, told nothing",
    "charged once, result",
    "not charged",
    "the application calls again",
    f"{TWICE} charged twice then",
)


def by_server(report: Report, era: Era) -> Cells:
    """Return a table of each client's lost responses with each server: charged, and told what.

    Servers with equal outcomes share a row.
    """
    rows = [
        (head(report.clients[name]), server, report.of(name, era, server))
        for name, spoke in spoken(report)
        if spoke == era
        for server in report.servers
    ]
    rows += [("all that are shipped", each, shipped(report, each, era)) for each in report.servers]
    found: dict[tuple[str, ...], list[str]] = {}
    for client, server, runs in rows:
        if runs:
            name = titled(server)
            found.setdefault((client, *outcomes(runs)), []).append(name)
    return [
        ["client", "server", *OUTCOMES],
        *([client, "; ".join(servers), *cells] for (client, *cells), servers in found.items()),
    ]


def outcomes(seen: Sequence[Seen]) -> list[str]:
    """Return the counts of `OUTCOMES` for some runs."""
    once, again = charges(lost(seen)), charges(made_again(seen))
    counts = (once.total(), *(once[each] for each in ENDINGS), again.total(), again[ENDINGS[0]])
    return [*map(str, counts)]


# --- conduct ------------------------------------------------------------------------------------


def _loses(seen: Seen) -> bool:
    return bool(lost([seen]))


def _fails(seen: Seen) -> bool:
    return seen.got != "result"


def _is_empty(seen: Seen) -> bool:
    return seen.got == "result" and not seen.says


CONDUCT: dict[str, tuple[str, Callable[[Seen], bool]]] = {
    "A lost connection raises outside the call, from the client's context manager.": (
        "",
        lambda seen: seen.got == "client error",
    ),
    "After a lost connection you must connect again.": (
        "",
        lambda seen: _loses(seen) and is_dead(seen),
    ),
    f"After a lost response it tells nothing for {LIMIT_SECONDS:.0f} s or more.": (
        "",
        lambda seen: _loses(seen) and seen.got == "nothing",
    ),
    "It reports a lost response after 60 s.": (
        "",
        lambda seen: _loses(seen) and seen.seconds == 60 and seen.got != "result",
    ),
    "In the legacy era it gives up while its user thinks for 75 s.": (
        "user-thinks",
        lambda seen: seen.era == "legacy" and _fails(seen),
    ),
    "In the modern era it gives up while its user thinks for 75 s.": (
        "user-thinks",
        lambda seen: seen.era == "modern" and _fails(seen),
    ),
    "It ends the call when the server rejects an answer.": (
        # A modern client sends an answer as a request.
        "bad-answer",
        lambda seen: seen.era == "modern" and _fails(seen) and (seen.requests or 0) > 1,
    ),
    "It refuses a wrong answer by itself.": (
        "bad-answer",
        lambda seen: seen.era == "modern" and _fails(seen) and seen.requests == 1,
    ),
    "It does not send on a state that came without a question.": (
        "state-only-twice",
        _fails,
    ),
    "It gives a state without a question to the application as a result.": (
        "state-only-twice",
        _is_empty,
    ),
    "It asks the user although another question of the round is of an unknown kind.": (
        "mixed-kinds",
        lambda seen: seen.asked > 0,
    ),
    "It treats an unknown `resultType` as a result.": (
        "unknown-result-type",
        lambda seen: seen.got == "result",
    ),
    "It drops a numeric state and continues.": (
        # A call that was started again has no state to drop.
        "state-is-a-number",
        lambda seen: not (_fails(seen) or seen.kept_state or seen.anew),
    ),
    "It treats `input_required` on a legacy connection as an empty result.": (
        "asked-on-legacy",
        _is_empty,
    ),
}
"""Sentences on a client, and the runs in which they are true: those of a trouble, or any."""


def conduct(report: Report, client: str) -> list[str]:
    """Return the sentences that are true of a client, from its runs with the first server."""
    seen = [each for era in ERAS for each in report.of(client, era)]
    return [
        sentence
        for sentence, (trouble, holds) in CONDUCT.items()
        if any(holds(each) for each in seen if trouble in ("", each.trouble))
    ]
