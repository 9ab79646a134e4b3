"""Tables for docs/results/CLIENTS.md: the model of each shipped client, and its charges.

Knows the counts of the kept runs; nothing of any client.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mrtr_options.review.bench.setup import Era
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
    """Return a table of the model of each client, with its counts."""
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
    """Return a table of each client's lost responses with each server: charged, and told what."""
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
    once = Charged.of(lost(runs))
    again = Charged.of(made_again(runs))
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
    """Return a few sentences on what shipped clients do, as a list."""
    return "\n".join(f"- {sentence}" for sentence in headlines(report))


def in_short(report: Report) -> str:
    """Return the same for README: clients of each model, and the charges with F and the default."""
    counts = {model: len(of_model(report, model)) for model in MODELS}
    settings = _settings(of_model(report, "calls again"))
    with_f = shipped(report, report.first_server)
    f_once = Charged.of(lost(with_f))
    f_again = Charged.of(made_again(with_f))
    with_default = shipped(report, DEFAULT)
    default_once = Charged.of(lost(with_default))
    default_again = Charged.of(made_again(with_default))
    return (
        f"Of {_number_shipped(report)}, {counts['stops']} stop, {counts['calls again']} call again"
        f" by themselves or through their model{settings}, {counts['resends']} resend."
        f" With F, {f_once.twice} of {f_once.calls} lost responses charge twice, and"
        f" {f_again.twice} of {f_again.calls} where the application then calls again;"
        f" with the default {default_once.twice} and {default_again.twice}."
    )


def _number_shipped(report: Report) -> int:
    return len([each for each in report.clients.values() if not each.is_ours])


def headlines(report: Report) -> list[str]:
    """Return the sentences: the clients of each model, then the charges with F and the default."""
    models = [_which(report, model) for model in MODELS]
    return [*models, *(_charges(report, server) for server in (report.first_server, DEFAULT))]


def _which(report: Report, model: Model) -> str:
    """Return a sentence that counts and names the shipped clients of one model."""
    found = of_model(report, model)
    settings = _settings(found)
    names = ", ".join(_in_eras(report, name, eras) for name, eras in found.items())
    return (
        f"{MODELS[model]}: {len(found)} of {_number_shipped(report)}{settings}. {names or 'None'}."
    )


def _settings(clients: Collection[str]) -> str:
    """Return a clause on the clients that do so only with a setting."""
    set_so = len([name for name in clients if name.endswith(RETRYING)])
    return f", {set_so} of them by a setting that is off by default" if set_so else ""


def _in_eras(report: Report, client: str, eras: Sequence[Era]) -> str:
    """Return a client's title, with the era if the client behaves so in only one of two."""
    speaks = [era for name, era in spoken(report) if name == client]
    title = report.clients[client].title
    return title if len(eras) == len(speaks) else f"{title} ({eras[0]})"


def _charges(report: Report, server: str) -> str:
    runs = shipped(report, server)
    once = Charged.of(lost(runs))
    again = Charged.of(made_again(runs))
    return (
        f"With {report.servers[server]}, of {once.calls} calls of shipped clients that lose a"
        f" response {once.twice} charge twice, {once.told_of_error} charge once and tell the user"
        f" of an error, and {once.hung} charge once and tell nothing. Where the application then"
        f" calls again, {again.twice} of {again.calls} charge twice."
    )
