"""Which of three clients each shipped one is, and what the default does for it: tables for
docs/CLIENTS.md.

Knows what the kept runs come to; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrtr_options.review.bench.faults import Era
from mrtr_options.terminal import markdown
from scoreboard.clients.counts import (
    Behaviour,
    Charged,
    Model,
    behaviours,
    lost,
    made_again,
    of_model,
    shipped,
    spoken,
)
from scoreboard.clients.kept import Report
from scoreboard.clients.page import CHARGED, DEAD, HANGS, TWICE, head
from scoreboard.clients.peers import RETRYING
from scoreboard.clients.play import Seen
from scoreboard.clients.server import DEFAULT

MODELS: dict[Model, str] = {
    "stops": "Stops, and tells the application of the error or nothing",
    "calls again": "Calls the tool again by itself, or has its model do so",
    "resends": "Resends a lost round, with its state",
}


def by_model(report: Report) -> str:
    """Write which of the three clients each one is, with how often it did what."""
    columns = (
        "client",
        "era",
        "it",
        "lost responses",
        "resent",
        "called again",
        "told of an error",
        f"{HANGS} hangs",
        f"{DEAD} dead",
    )
    return markdown(columns, [_row(report, each) for each in behaviours(report)])


def _row(report: Report, found: Behaviour) -> Sequence[str]:
    counts = (found.resent, found.called_again, found.told, found.hung, found.dead)
    return (
        report.clients[found.client].title,
        found.era,
        f"**{found.model}**",
        str(found.lost),
        *(str(count or "") for count in counts),
    )


def by_server(report: Report, era: Era) -> str:
    """Write what each client's lost responses come to with each server: charged, and told what."""
    rows: list[Sequence[str]] = []
    for name, spoke in spoken(report):
        if spoke == era:
            for server in report.servers:
                runs = report.of(name, era, server)
                rows.append(_outcomes(head(report.clients[name]), report, server, runs))
    for server in report.servers:
        runs = [seen for seen in shipped(report, server) if seen.era == era]
        rows.append(_outcomes("**all that are shipped**", report, server, runs))
    columns = (
        "client",
        "server",
        "lost responses",
        f"{TWICE} charged twice",
        f"{CHARGED} charged, told of an error",
        f"{HANGS} charged, told nothing",
        "charged once, result",
        "not charged",
        "the application calls again",
        f"{TWICE} charged twice then",
    )
    return markdown(columns, rows)


def _outcomes(label: str, report: Report, server: str, runs: Sequence[Seen]) -> Sequence[str]:
    once, again = Charged.of(lost(runs)), Charged.of(made_again(runs))
    counts = (once.twice, once.told_of_error, once.hung, once.once, once.nothing)
    title = report.servers[server]
    return (
        label,
        f"**{title}**" if server == DEFAULT else title,
        str(once.calls),
        *map(str, counts),
        str(again.calls),
        str(again.twice),
    )


def headline(report: Report) -> str:
    """Write what shipped clients do in a few sentences, with their counts."""
    return "\n".join(f"- {sentence}" for sentence in headlines(report))


def in_short(report: Report) -> str:
    """Write the same for README: how many are of each model, and whom F and the default charge."""
    many = sum(not each.is_ours for each in report.clients.values())
    counts = {model: len(of_model(report, model)) for model in MODELS}
    mine, theirs = (
        (Charged.of(lost(runs)), Charged.of(made_again(runs)))
        for runs in (shipped(report, DEFAULT), shipped(report, report.first_server))
    )
    return (
        f"Of {many}, {counts['stops']} stop, {counts['calls again']} call again by themselves,"
        f" {counts['resends']} resend. With F, {theirs[0].twice} of {theirs[0].calls} lost responses"
        f" charge twice, and {theirs[1].twice} of {theirs[1].calls} where the application then calls"
        f" again; with the default {mine[0].twice} and {mine[1].twice}. With both,"
        f" {mine[0].told_of_error} are charged once and told of an error."
    )


def headlines(report: Report) -> list[str]:
    """Return the sentences: which client is which, then what F and the default come to."""
    models = [_which(report, model) for model in MODELS]
    return [*models, *(_charges(report, server) for server in (report.first_server, DEFAULT))]


def _which(report: Report, model: Model) -> str:
    """Return which shipped clients are of one model, counted."""
    found = of_model(report, model)
    many = sum(not each.is_ours for each in report.clients.values())
    set_so = sum(name.endswith(RETRYING) for name in found)
    settings = f", {set_so} of them by a setting that is off by default" if set_so else ""
    names = ", ".join(_in_eras(report, name, eras) for name, eras in found.items())
    return f"{MODELS[model]}: {len(found)} of {many}{settings}. {names or 'None'}."


def _in_eras(report: Report, client: str, eras: Sequence[Era]) -> str:
    """Return a client's title, with the era where it was found in one of two."""
    speaks = [era for name, era in spoken(report) if name == client]
    return report.clients[client].title + ("" if len(eras) == len(speaks) else f" ({eras[0]})")


def _charges(report: Report, server: str) -> str:
    runs = shipped(report, server)
    once, again = Charged.of(lost(runs)), Charged.of(made_again(runs))
    return (
        f"With {report.servers[server]}, of {once.calls} calls of shipped clients that lose a"
        f" response {once.twice} charge twice, {once.told_of_error} charge once and tell the user of"
        f" an error, and {once.hung} charge once and tell nothing. Where the application then calls"
        f" again, {again.twice} of {again.calls} charge twice."
    )
