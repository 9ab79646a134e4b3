"""What docs/clients.json keeps of the clients, in words: tables for the terminal and
docs/CLIENTS.md.

Knows what `play` sees; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel
from rich.box import SIMPLE_HEAD
from rich.table import Table

from mrtr_options.review.bench.faults import ERAS, Era
from mrtr_options.terminal import markdown
from scoreboard import ROOT
from scoreboard.clients.play import LIMIT_SECONDS, TROUBLES, Seen, Trouble

FILE = ROOT / "docs" / "clients.json"
"""What CLIENTS shows: the last run of everything."""
PAGE = ROOT / "docs" / "CLIENTS.md"


class About(BaseModel):
    """A client that was run."""

    title: str
    library: str
    version: str
    note: str


class Report(BaseModel):
    """What is kept of a run.

    Attributes:
        server: The subject that was called.
        clients: Who called it, by name.
        seen: What each did.
    """

    server: str
    clients: dict[str, About]
    seen: list[Seen]


def read(path: Path = FILE) -> Report:
    """The last run that was kept."""
    return Report.model_validate_json(path.read_bytes())


# --- words --------------------------------------------------------------------------------------


def sends(seen: Seen) -> str:
    """Whether anything was sent once more."""
    parts: list[str] = []
    if seen.again:
        parts.append(f"resends the round, {seen.again}×" + (", same id" if seen.same_id else ""))
    if seen.anew:
        parts.append(f"calls again, {seen.anew}×" + (", same id" if seen.same_id else ""))
    if seen.resumed:
        parts.append(f"resumes the stream, {seen.resumed}×")
    return "; ".join(parts) or ("?" if seen.requests is None else "no")


def gets(seen: Seen) -> str:
    """What the application got, without an error's text."""
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
    """After how long."""
    return "soon" if not seen.seconds else f"{seen.seconds} s"


def usable(seen: Seen) -> str:
    """Whether the client was of use afterwards."""
    if seen.usable is None:
        return "no" if seen.got in ("client error", "died") else "?"
    return "yes" if seen.usable else "no"


def ledger(seen: Seen) -> str:
    """Audits and bills."""
    return "" if seen.audits is None else f"{seen.audits}/{seen.bills}"


def cell(seen: Seen) -> str:
    """All of it in a few words."""
    words = "dead" if seen.got in ("error", "client error") and usable(seen) == "no" else seen.got
    if seen.got == "nothing":
        words = "hangs"
    elif seen.seconds:
        words += f" {seen.seconds} s"
    if seen.got == "result" and not seen.says:
        words = "empty result"
    if seen.again or seen.anew:
        words += ", resent" if seen.again else ", called again"
    return " ".join(filter(None, (words, ledger(seen))))


COLUMNS: dict[str, Callable[[Seen], str]] = {
    "sends more": sends,
    "the application gets": gets,
    "after": after,
    "usable": usable,
    "requests": lambda seen: "?" if seen.requests is None else str(seen.requests),
    "asked": lambda seen: str(seen.asked),
    "ledger": ledger,
}
"""What is said of each client in each trouble."""


# --- the terminal -------------------------------------------------------------------------------


def tables(report: Report) -> list[Table]:
    """A table for each client and era."""
    shown: list[Table] = []
    for about, era, rows in _by_client(report):
        table = Table(
            title=f"{about.title}, {about.library} {about.version}, {era}",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.title_justify, table.title_style = "left", "bold"
        for column in ("trouble", *COLUMNS):
            table.add_column(column, overflow="fold")
        for seen in rows:
            table.add_row(seen.trouble, *(said(seen) for said in COLUMNS.values()))
        shown.append(table)
    return shown


def _by_client(report: Report) -> Iterator[tuple[About, Era, list[Seen]]]:
    """What was seen, by client and era."""
    for name, about in report.clients.items():
        for era in ERAS:
            if rows := [seen for seen in report.seen if _is(seen, name, era)]:
                yield about, era, rows


# --- the page -----------------------------------------------------------------------------------


def overview(report: Report, era: Era) -> str:
    """A row for each trouble, a column for each client of this era."""
    names = [name for name in report.clients if any(_is(seen, name, era) for seen in report.seen)]
    found = {(seen.trouble, seen.client): seen for seen in report.seen if seen.era == era}
    lines: list[Sequence[str]] = []
    for trouble in TROUBLES.values():
        if not any((trouble.name, name) in found for name in names):
            continue
        row = [found.get((trouble.name, name)) for name in names]
        lines.append((_named(trouble), *("" if seen is None else cell(seen) for seen in row)))
    return markdown(("what happens", *(report.clients[name].title for name in names)), lines)


def _is(seen: Seen, name: str, era: Era) -> bool:
    return (seen.client, seen.era) == (name, era)


def _named(trouble: Trouble) -> str:
    return f"{trouble.says.removesuffix('.')} (`{trouble.name}`)"


def versions(report: Report) -> str:
    """Who was run."""
    abouts = report.clients.values()
    rows = ((each.title, f"`{each.library}`", each.version, each.note) for each in abouts)
    return markdown(("client", "package", "version", ""), rows)


def details(report: Report) -> str:
    """All that was seen, a table for each client and era."""
    parts: list[str] = []
    for about, era, rows in _by_client(report):
        cells = (
            (f"`{seen.trouble}`", *(said(seen).replace("|", "\\|") for said in COLUMNS.values()))
            for seen in rows
        )
        parts += [f"### {about.title}, {era}", markdown(("trouble", *COLUMNS), cells)]
    return "\n\n".join(parts)


def findings(report: Report) -> str:
    """What the tables come to, each as a sentence with those that it is true of."""
    return "\n".join(f"- {sentence}" for sentence in sentences(report))


def sentences(report: Report) -> list[str]:
    titles = {name: about.title for name, about in report.clients.items()}

    def who(holds: Callable[[Seen], bool]) -> str:
        names = dict.fromkeys(seen.client for seen in report.seen if holds(seen))
        return ", ".join(titles[name] for name in names) or "none"

    def of(*troubles: str) -> Callable[[Seen], bool]:
        return lambda seen: seen.trouble in troubles

    lost = of(*(name for name, each in TROUBLES.items() if each.modern and not each.again))
    billed = [seen for seen in report.seen if seen.trouble == "cut-final-again" and seen.bills]
    twice = sum(seen.bills == 2 for seen in billed)
    return [
        f"Resends a lost round, with its state: {who(lambda s: s.again > 0)}.",
        "Calls the tool again by itself after a lost or refused response, and repeats an effect: "
        f"{who(lambda s: lost(s) and s.anew > 0 and max(s.audits or 0, s.bills or 0) > 1)}.",
        "Charged twice if the application calls again after a lost result: "
        f"{twice} of {len(billed)} runs.",
        "A lost connection raises outside the call, from the client's context manager: "
        f"{who(lambda s: s.got == 'client error')}.",
        "You must create a new client after a lost connection: "
        f"{who(lambda s: lost(s) and usable(s) == 'no')}.",
        f"Hangs for {LIMIT_SECONDS:.0f} s or more after a broken event stream: "
        f"{who(lambda s: s.got == 'nothing' and lost(s))}. Reports it after 60 s: "
        f"{who(lambda s: lost(s) and 'stream' in s.trouble and s.seconds == 60)}.",
        "Gives up while its user thinks for 75 s, in the legacy era: "
        f"{who(lambda s: _gave_up(s) and s.era == 'legacy')}; in the modern one: "
        f"{who(lambda s: _gave_up(s) and s.era == 'modern')}.",
        "Ends the call when the server rejects an answer: "
        f"{who(lambda s: s.trouble == 'bad-answer' and s.got != 'result')}.",
        "Asks the user although another question of the round is of an unknown kind: "
        f"{who(lambda s: s.trouble == 'mixed-kinds' and s.asked > 0)}.",
        "Treats an unknown `resultType` as a result: "
        f"{who(lambda s: s.trouble == 'unknown-result-type' and s.got == 'result')}.",
        "Drops a numeric state and continues: "
        f"{who(lambda s: s.trouble == 'state-is-a-number' and s.got == 'result' and not s.kept_state)}.",
        "Treats `input_required` on a legacy connection as an empty result: "
        f"{who(lambda s: s.trouble == 'asked-on-legacy' and s.got == 'result' and not s.says)}.",
    ]  # fmt: skip


def _gave_up(seen: Seen) -> bool:
    return seen.trouble == "user-thinks" and seen.got != "result"
