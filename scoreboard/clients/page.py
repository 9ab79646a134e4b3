"""The kept runs of clients in words: tables for the terminal and docs/results/CLIENTS.md.

Knows the kept runs and their counts; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table

from mrtr_options.review.bench.setup import Era
from mrtr_options.terminal import markdown
from scoreboard import ROOT
from scoreboard.clients.counts import is_dead, lost, spoken, takes_state_alone
from scoreboard.clients.kept import About, Report
from scoreboard.clients.play import LIMIT_SECONDS, Seen
from scoreboard.clients.server import DEFAULT
from scoreboard.clients.troubles import TROUBLES, Trouble

PAGE = ROOT / "docs" / "results" / "CLIENTS.md"
GUARDED = "F+single-use"
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
    parts: list[str] = []
    if seen.again:
        parts.append(f"resends the round, {seen.again}×" + (", same id" if seen.same_id else ""))
    if seen.anew:
        parts.append(f"calls again, {seen.anew}×" + (", same id" if seen.same_id else ""))
    if seen.resumed:
        parts.append(f"resumes the stream, {seen.resumed}×")
    return "; ".join(parts) or ("?" if seen.requests is None else "no")


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
    "ledger": ledger,
}
"""The columns of a client's table: the text of each run."""


# --- the terminal -------------------------------------------------------------------------------


def tables(report: Report) -> list[Table]:
    """Return a table for each client, era and server."""
    found: list[Table] = []
    for head, name, era in _heads(report):
        for server in report.servers:
            rows = report.of(name, era, server)
            if rows:
                found.append(_table(f"{head}, {report.servers[server]}", rows))
    return found


def _table(title: str, rows: Sequence[Seen]) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.title_justify = "left"
    table.title_style = "bold"
    for column in ("trouble", *COLUMNS):
        table.add_column(column, overflow="fold")
    for seen in rows:
        table.add_row(seen.trouble, *(said(seen) for said in COLUMNS.values()))
    return table


def _heads(report: Report) -> Iterator[tuple[str, str, Era]]:
    """Yield a heading, the client's name and the era, for every client and era that was run."""
    for name, era in spoken(report):
        yield f"{head(report.clients[name])}, {era}", name, era


# --- the page -----------------------------------------------------------------------------------


def head(about: About) -> str:
    """Return the head of a client's column: its title, its version and the date."""
    return f"{about.title} {about.version}, {about.date}"


def overview(report: Report, era: Era, server: str | None = None) -> str:
    """Return a table with a row for each trouble, and a column for each client of this era.

    Our own client has two columns: alone, and with F in the guard.
    """
    columns: dict[str, dict[str, Seen]] = {}
    for name, spoke in spoken(report):
        if spoke != era:
            continue
        about = report.clients[name]
        columns[head(about)] = _by_trouble(report.of(name, era, server))
        if about.is_ours and server is None:
            guarded = _by_trouble(report.of(name, era, GUARDED))
            columns[f"{head(about)}, server in the guard"] = guarded
    rows: list[Sequence[str]] = []
    for trouble in TROUBLES.values():
        found = [column.get(trouble.name) for column in columns.values()]
        if any(found):
            cells = ("" if seen is None else cell(seen) for seen in found)
            rows.append((_named(trouble), *cells))
    return markdown(("what happens", *columns), rows)


def _by_trouble(seen: Sequence[Seen]) -> dict[str, Seen]:
    return {each.trouble: each for each in seen}


def _named(trouble: Trouble) -> str:
    return f"{trouble.says.removesuffix('.')} (`{trouble.name}`)"


def versions(report: Report) -> str:
    """Return a table of the clients, with versions and dates."""
    words = {True: "yes", False: "no", None: ""}
    rows = [
        (
            each.title,
            f"`{each.library}`",
            each.version,
            each.date,
            words[takes_state_alone(report, name)],
            each.note,
        )
        for name, each in report.clients.items()
    ]
    columns = ("client", "package", "version", "run", "takes a state without a question", "")
    return markdown(columns, rows)


def details(report: Report) -> str:
    """Return all runs with the first server, and those with the default that differ."""
    parts: list[str] = []
    for heading, name, era in _heads(report):
        with_default = _by_trouble(report.of(name, era, DEFAULT))
        rows: list[Sequence[str]] = []
        for seen in report.of(name, era):
            rows.append(_detail(f"`{seen.trouble}`", seen))
            other = with_default.get(seen.trouble)
            if other is not None and _says(other) != _says(seen):
                rows.append(_detail("— with the default", other))
        parts += [f"### {heading}", markdown(("trouble", *COLUMNS), rows)]
    return "\n\n".join(parts)


def _says(seen: Seen) -> list[str]:
    return [said(seen) for said in COLUMNS.values()]


def _detail(name: str, seen: Seen) -> Sequence[str]:
    return (name, *(said.replace("|", "\\|") for said in _says(seen)))


HISTORIES = (("temporal", "cut-final"),)
"""The calls whose histories the page shows: clients and troubles, by name."""


def histories(report: Report) -> str:
    """Return the histories of `HISTORIES`, with the first server and with the default."""
    found = [
        seen
        for client, trouble in HISTORIES
        for server in (report.first_server, DEFAULT)
        for seen in report.seen
        if (seen.client, seen.trouble, seen.server) == (client, trouble, server)
    ]
    return "\n\n".join(f"```text\n{history(report, seen)}\n```" for seen in found)


def history(report: Report, seen: Seen) -> str:
    """Return the requests and responses of a call, a line for each, and its end."""
    about = report.clients[seen.client]
    title = f"{about.title} {about.version}, {seen.era}, {report.servers[seen.server]}"
    end = f"the application gets {gets(seen)}"
    if seen.audits is not None:
        end += f"; audits: {seen.audits}, bills: {seen.bills}"
    lines = [f"  {line}" for line in (*seen.history, end)]
    return "\n".join((f"{title}, {seen.trouble}:", *lines))


def findings(report: Report) -> str:
    """Return the conclusions from the tables as a list; each names the clients it is true of."""
    return "\n".join(f"- {sentence}" for sentence in sentences(report))


def sentences(report: Report) -> list[str]:
    """Return the conclusions from the runs with the first server."""
    runs = [seen for seen in report.seen if seen.server == report.first_server]
    titles = {name: about.title for name, about in report.clients.items()}

    def who(holds: Callable[[Seen], bool]) -> str:
        names = dict.fromkeys(seen.client for seen in runs if holds(seen))
        return ", ".join(titles[name] for name in names) or "none"

    def of(trouble: str, holds: Callable[[Seen], bool]) -> str:
        return who(lambda seen: seen.trouble == trouble and holds(seen))

    def loses(holds: Callable[[Seen], bool]) -> str:
        return who(lambda seen: bool(lost([seen])) and holds(seen))

    def gives_up(era: Era) -> str:
        return of("user-thinks", lambda seen: seen.era == era and seen.got != "result")

    return [
        "A lost connection raises outside the call, from the client's context manager: "
        f"{who(lambda seen: seen.got == 'client error')}.",
        f"You must create a new client after a lost connection: {loses(is_dead)}.",
        f"Hangs for {LIMIT_SECONDS:.0f} s or more after a lost response: "
        f"{loses(lambda seen: seen.got == 'nothing')}. Reports it after 60 s: "
        f"{loses(lambda seen: seen.seconds == 60 and seen.got != 'result')}.",
        f"Gives up while its user thinks for 75 s, in the legacy era: {gives_up('legacy')}; in the"
        f" modern one: {gives_up('modern')}.",
        "Ends the call when the server rejects an answer: "
        f"{of('bad-answer', _is_refused_by_the_server)}. Refuses it by itself: "
        f"{of('bad-answer', _is_refused_by_the_client)}.",
        "Does not send a state on that came without a question: "
        f"{of('state-only-twice', lambda seen: seen.got != 'result')}."
        " Treats it as an empty result: "
        f"{of('state-only-twice', lambda seen: seen.got == 'result' and not seen.says)}.",
        "Asks the user although another question of the round is of an unknown kind: "
        f"{of('mixed-kinds', lambda seen: seen.asked > 0)}.",
        "Treats an unknown `resultType` as a result: "
        f"{of('unknown-result-type', lambda seen: seen.got == 'result')}.",
        f"Drops a numeric state and continues: {of('state-is-a-number', _drops_the_state)}.",
        "Treats `input_required` on a legacy connection as an empty result: "
        f"{of('asked-on-legacy', lambda seen: seen.got == 'result' and not seen.says)}.",
    ]


def _is_refused_by_the_server(seen: Seen) -> bool:
    """Return whether a wrong answer was sent; a modern client sends it as a request."""
    return seen.era == "modern" and seen.got != "result" and (seen.requests or 0) > 1


def _is_refused_by_the_client(seen: Seen) -> bool:
    return seen.era == "modern" and seen.got != "result" and seen.requests == 1


def _drops_the_state(seen: Seen) -> bool:
    """Return whether a call went on without its state, and was not started again."""
    return seen.got == "result" and not seen.kept_state and not seen.anew
