"""The kept results of proxies, in tables. Knows the proxies' folders."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mrtr_options.terminal import markdown
from scoreboard.board import Scoreboard
from scoreboard.proxies.guards import GUARDS
from scoreboard.proxies.play import (
    LIMITATION,
    SUBJECTS,
    Passed,
    ProxyAbout,
    ProxyResults,
    Setting,
    proxies,
)
from scoreboard.proxies.upstream import FAULTS
from scoreboard.rows import Cell, Row, slug

Result = tuple[ProxyAbout, Setting, ProxyResults]


def played(board: Scoreboard) -> list[Result]:
    """Return the settings that were played, in the order of the proxies, defaults first."""
    return [
        (about, setting, found)
        for name, about in proxies().items()
        if (found := board.proxies.get(name)) is not None
        for setting in about.settings
        if setting.name in found.settings | found.crossings
    ]


def results(board: Scoreboard) -> list[Result]:
    """Return the settings that were played with faults."""
    return [each for each in played(board) if each[1].name in each[2].settings]


def cell(seen: Mapping[str, Passed]) -> str:
    """Return where the last round went, how often each server charged, and the client's result."""
    if any(each.end == LIMITATION for each in seen.values()):
        return LIMITATION
    first = seen[SUBJECTS[0]]
    again = [each.deliveries for each in seen.values() if len(each.deliveries) > 1]
    bills = "/".join(str(seen[subject].bills) for subject in SUBJECTS)
    sent = "not again" if first.deliveries else "no instance reached"
    if again:
        how_often = "" if len(again) == len(seen) else f" in {len(again)} of {len(seen)} runs"
        sent = f"**again**{how_often} (to {', '.join(sorted({_where(each) for each in again}))})"
    ends = sorted({_ending(each.end) for each in seen.values()})
    return f"{sent}; {bills}; {' or '.join(ends)}"


def _where(instances: Sequence[str]) -> str:
    return "the other" if len(set(instances)) > 1 else "the same"


def _ending(end: str) -> str:
    return "error" if end.startswith("error") else end


def by_fault(board: Scoreboard) -> str:
    """Return a table with a row for each setting of each proxy: its behaviour under each fault."""
    lines = (
        (
            f"{about.title}, {setting.name}",
            *(cell(found.settings[setting.name][fault]) for fault in FAULTS),
        )
        for about, setting, found in results(board)
    )
    return markdown(("proxy", *FAULTS.values()), lines)


def first(board: Scoreboard) -> list[Row]:
    """Return a row of the scoreboard for each setting of each proxy."""
    return [
        Row(
            id=f"proxies/{about.name}/{slug(setting.name)}",
            title=about.title,
            form=setting.name,
            version=version_number(found.version),
            date=found.date,
            cells={
                fault: Cell(says=cell(seen).replace("**", ""))
                for fault, seen in found.settings[setting.name].items()
            },
        )
        for about, setting, found in results(board)
    ]


def version_number(printed: str) -> str:
    """Return the version in what a proxy prints of itself."""
    found = re.search(r"\d+\.\d+\.\d+", printed)
    return found[0] if found else printed


def carried(board: Scoreboard) -> str:
    """Return a sentence on how many repeated deliveries had the same request."""
    seen = [
        each
        for _, setting, found in results(board)
        for cells in found.settings[setting.name].values()
        for each in cells.values()
        if len(each.deliveries) > 1
    ]
    same = len([each for each in seen if each.same])
    return (
        f"Of {len(seen)} calls whose last round was delivered more than once, {same} had the same"
        " `Mcp-Method`, arguments, answers and state in each delivery."
    )


CROSSING_HEADS = (
    "gateway",
    "rounds that arrive as they were sent",
    "the client's state is",
    "speaks to the instance",
    "says that its client can be asked",
    "charged",
    "end for the client",
    "end through two gateways",
    "a client that cannot be asked gets",
)


def crossings(board: Scoreboard) -> str:
    """Return a table of the calls without a fault through gateways."""
    lines: list[Sequence[str]] = []
    for about, setting, found in played(board):
        if setting.name not in found.crossings:
            continue
        seen = [found.crossings[setting.name][subject] for subject in SUBJECTS]
        rounds = {f"{each.same} of {each.sent}" for each in seen}
        got_state = any(each.sent > 1 for each in seen)
        state = {"the gateway's own" if each.sealed else "the server's" for each in seen}
        lines.append(
            (
                f"{about.title}, {setting.name}",
                _each(rounds),
                _each(state) if got_state else "none",
                _each({each.version or "nothing arrives" for each in seen}),
                _each({"yes" if each.can_ask else "no" for each in seen}),
                "/".join(str(each.bills) for each in seen),
                _each({each.end for each in seen}),
                _each({each.two_gateways for each in seen}),
                _each({each.undeclared.replace("question", "the question") for each in seen}),
            )
        )
    return markdown(CROSSING_HEADS, lines)


def _each(words: set[str]) -> str:
    return " or ".join(sorted(words))


def guards(board: Scoreboard) -> str:
    """Return a table of the guards that others sell, around the tool and around the charge."""
    lines: list[Sequence[str]] = []
    for name, found in board.guards.items():
        ways = {"tool": GUARDS[name].tool, "charge": GUARDS[name].charge}
        for around, way in ways.items():
            seen = found.cells[around].values()
            ends = sorted({each.end for each in seen})
            ended = [each for each in seen if each.end == "result"]
            resent, again = (
                "/".join(map(str, bills)) if ended else "nothing is charged"
                for bills in (
                    [each.resent for each in seen],
                    [each.called_again for each in seen],
                )
            )
            title = GUARDS[name].title.replace("==", " ")
            lines.append((title, f"the {around}: {way}", " or ".join(ends), resent, again))
    heads = (
        "guard",
        "around",
        "a call that asks",
        "result lost, the round is sent again: charged",
        "result lost, the tool is called again: charged",
    )
    return markdown(heads, lines)


def versions(board: Scoreboard) -> str:
    """Return a table of the installed proxies, with their documentation on retries."""
    lines: list[Sequence[str]] = []
    for about, setting, found in played(board):
        command = f"`python -m scoreboard.proxies --only {about.name}`"
        title = f'<a id="proxies-{about.name}"></a>{about.title}'
        about_it = (title, found.version, found.date, command)
        is_first = setting is about.settings[0]
        lines.append(
            (*(about_it if is_first else ("", "", "", "")), setting.name, setting.documentation)
        )
    heads = ("proxy", "version", "run", "command", "setting", "its documentation")
    return markdown(heads, lines)
