"""The tables and lines of docs/results/CLIENTS.md: the policy of each shipped client, its charges.

Knows the kept runs and their counts; nothing of any client.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mrtr_options.review.bench.messages import ERAS, Era
from mrtr_options.sdk.testing import Policy
from mrtr_options.terminal import markdown
from scoreboard.clients.counts import (
    ENDINGS,
    REACTIONS,
    behaviours,
    charges,
    lost,
    made_again,
    number_shipped,
    policy_of,
    shipped,
    spoken,
    takes_state_alone,
    twice_of,
    with_policy,
)
from scoreboard.clients.kept import Report
from scoreboard.clients.page import (
    CHARGED,
    HANGS,
    OUTCOMES,
    TWICE,
    addresses,
    anchor,
    conduct,
    outcomes,
)
from scoreboard.clients.peers import RETRYING
from scoreboard.clients.play import Seen
from scoreboard.clients.server import DEFAULT
from scoreboard.clients.troubles import TROUBLES

THEY: dict[Policy, str] = {
    "stops": "stop: they report the error to the application, or nothing",
    "calls again": "call the tool again, by themselves or through their model",
    "resends": "resend the lost round, with its state",
}

MARKS = f"{TWICE}{CHARGED}{HANGS} "
"""The marks of the page's columns, which a document does without."""


def by_client(report: Report) -> str:
    """Return a table with a row for each client and era: its own reactions, and its charges."""
    titles = {name: f"{each.title} {each.version}" for name, each in report.clients.items()}
    anchors = {where: anchor(title) for title, where in addresses(report).items()}
    rows: list[Sequence[str]] = []
    for (client, era), found in behaviours(report).items():
        twice = (
            twice_of(chosen(report.of(client, era, server)))
            for chosen in (lost, made_again)
            for server in (report.first_server, DEFAULT)
        )
        name = f'<a id="{anchors[f"clients/{client}/{era}"]}"></a>{titles[client]}'
        rows.append((name, era, f"**{policy_of(found)}**", *map(str, found.values()), *twice))
    return markdown(
        (
            "client",
            "era",
            "when a response is lost, it",
            *REACTIONS,
            "charged twice, F",
            "charged twice, the default",
            "the application calls again: charged twice, F",
            "the application calls again: charged twice, the default",
        ),
        rows,
    )


SENDS: tuple[str, ...] = ("sends the same request again", "calls the tool anew", "neither")
"""What a client does when another answer takes the place of a response."""


def refused(report: Report) -> str:
    """Return a table with a row for each answer that takes the place of a response.

    Each row names the shipped clients by what they then do, and counts the calls of modern clients
    that charge twice.
    """
    rows: list[Sequence[str]] = []
    for trouble in (each for each in TROUBLES.values() if each.refuses):
        first, default = (
            [each for each in shipped(report, server) if each.trouble == trouble.name]
            for server in (report.first_server, DEFAULT)
        )
        names = (_named(report, first, sends) or "none" for sends in SENDS)
        twice = (
            twice_of(each for each in runs if each.era == "modern") for runs in (first, default)
        )
        rows.append((trouble.says, *names, *twice))
    heads = ("the answer", *SENDS, "charged twice, F", "charged twice, the default")
    return markdown(heads, rows)


def _sends(seen: Seen) -> str:
    """Return what the client sent. A legacy call is one request, so its id tells which it is."""
    same, anew, neither = SENDS
    if seen.again or (seen.anew and seen.same_id):
        return same
    return anew if seen.anew else neither


def _named(report: Report, runs: Sequence[Seen], sends: str) -> str:
    """Return the clients of the runs that sent so, with the era if the other era differs."""
    found: dict[str, list[Era]] = {}
    for each in runs:
        if _sends(each) == sends:
            found.setdefault(each.client, []).append(each.era)
    played = Counter(each.client for each in runs)
    return ", ".join(
        report.clients[name].title + ("" if len(eras) == played[name] else f" ({eras[0]})")
        for name, eras in found.items()
    )


def resenders(report: Report) -> tuple[set[str], set[str]]:
    """Return the shipped clients that got one of these answers, and those that then resent."""
    runs = shipped(report, report.first_server)
    refused_runs = [each for each in runs if TROUBLES[each.trouble].refuses]
    again = [each for each in refused_runs if _sends(each) == SENDS[0]]
    return {each.client for each in refused_runs}, {each.client for each in again}


def resend(report: Report) -> str:
    """Return a sentence on the clients that send a request again, and on those that call again."""
    libraries = {each.library for each in report.clients.values() if not each.is_ours}
    lost, again = len(with_policy(report, "resends")), len(with_policy(report, "calls again"))
    tried, resent = resenders(report)
    return (
        f"{lost} of [{number_shipped(report)} clients](CLIENTS.md) of {len(libraries)} libraries"
        f" resend a lost request, and {again} call the tool again.\n"
        f"{len(resent)} of {len(tried)} that were tried resend a request that is "
        "[redirected, or needs a new token](CLIENTS.md#who-sends-a-request-twice)."
    )


def totals(report: Report) -> str:
    """Return a table of the charges of all shipped clients, by era and server."""
    heads = ("era", "server", *(each.lstrip(MARKS) for each in OUTCOMES))
    rows = [
        (era, title, *outcomes(runs))
        for era in ERAS
        for server, title in report.servers.items()
        if (runs := shipped(report, server, era))
    ]
    return markdown(heads, rows)


def lines(report: Report) -> str:
    """Return a line for each client: its package, its note, and its conduct with F."""
    return "\n".join(_line(report, name) for name in report.clients)


def _line(report: Report, name: str) -> str:
    about = report.clients[name]
    takes = "It takes a state without a question." if takes_state_alone(report, name) else ""
    parts = [
        f"- **{about.title}** (`{about.library}` {about.version}, {about.date}).",
        about.note,
        *conduct(report, name),
        takes,
    ]
    return " ".join(filter(None, parts))


def headline(report: Report) -> str:
    """Return a few sentences on what shipped clients do, as a list."""
    return "\n".join(f"- {sentence}" for sentence in headlines(report))


def headlines(report: Report) -> list[str]:
    """Return the sentences: the clients by policy, then the charges with F and the default."""
    policies = [_which(report, policy) for policy in THEY]
    return [*policies, *(_charges(report, server) for server in (report.first_server, DEFAULT))]


def _which(report: Report, policy: Policy) -> str:
    """Return a sentence that counts and names the shipped clients with one policy."""
    found = with_policy(report, policy)
    names = ", ".join(_in_eras(report, name, eras) for name, eras in found.items())
    counted = f"**{len(found)} of {number_shipped(report)} clients {THEY[policy]}.**"
    set_so = len([name for name in found if name.endswith(RETRYING)])
    by_setting = f" {set_so} of them do so only with a setting that is off by default."
    return counted + (by_setting if set_so else "") + (f" {names}." if names else "")


def _in_eras(report: Report, client: str, eras: Sequence[Era]) -> str:
    """Return a client's title, with the era if the client behaves so in only one of two."""
    speaks = [era for name, era in spoken(report) if name == client]
    title = report.clients[client].title
    return title if len(eras) == len(speaks) else f"{title} ({eras[0]})"


def _charges(report: Report, server: str) -> str:
    runs = shipped(report, server)
    found = charges(lost(runs))
    twice, told, hung, *_ = (found[each] for each in ENDINGS)
    return (
        f"With {report.servers[server]}, {found.total()} calls of shipped clients lose a response:"
        f" {twice} charge twice, {told} charge once and tell the user of an"
        f" error, and {hung} charge once and tell nothing. Where the application then calls"
        f" again, {twice_of(made_again(runs))} charge twice."
    )
