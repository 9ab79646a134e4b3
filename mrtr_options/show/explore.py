"""What `explore` prints: for each subject the smallest sets of faults that show an anomaly.

Knows what was explored and the terminal.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import anyio
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mrtr_options.bench.explore import Fleet, Policy, World
from mrtr_options.bench.subjects import CALL_KEY, LEGACY_SHIM, SINGLE_USE
from mrtr_options.judge.anomalies import ANOMALIES
from mrtr_options.judge.proof import Proof, prove
from mrtr_options.judge.shares import explored
from mrtr_options.judge.witnesses import Explored, Faults
from mrtr_options.show.progress import progress, stepping
from mrtr_options.show.terminal import console, plural
from mrtr_options.show.terminal import markdown as table

FLEETS: dict[Fleet, str] = {
    "one": "one instance",
    "sticky": "two instances, rounds go to the one that asked",
    "free": "two instances in turn",
}
POLICIES: dict[Policy, str] = {
    "retry": "the client retries",
    "call again": "the client calls again",
}
FILE = Path(__file__).parents[2] / "docs" / "explored.json"
"""What RESULTS shows: `explore --faults 2 --json`, as it was last kept."""

SHORT = 6
"""How many witnesses of an anomaly are printed; --json has all."""


def show(
    worlds: Mapping[World, int],
    *,
    form: Literal["text", "json", "markdown"],
    keep_in: Path | None = None,
) -> int:
    """Explore, and print what was found. Returns 1 if a run is wrong and no anomaly says so.

    Args:
        worlds: What is called, where and by which clients, and up to how many faults each.
        form: How it is printed.
        keep_in: A file for what is done, with what an earlier command has done; None for none.

    Raises:
        CannotResume: The file cannot be used.
    """
    place = {world: number for number, world in enumerate(worlds)}
    done: list[Explored] = []
    with progress(quiet=form == "json") as bar:
        most = plural(max(worlds.values(), default=0), "fault")
        task = bar.add_task(f"up to {most}", total=len(worlds))
        step = stepping(bar, task)

        def on_share(shares: int, of: int, name: str) -> None:
            bar.update(task, completed=shares - 1, total=of)
            step(name)

        done += explored(worlds, keep_in, on_share)
        done.sort(key=lambda found: place[found.world])
        task = bar.add_task("any number of faults", total=len(worlds))
        proofs: dict[str, Proof] = {}
        for world in worlds:
            provable = world.subject.option.extra is None and not world.subject.keyed
            if world.subject.name not in proofs and provable:
                proofs[world.subject.name] = anyio.run(prove, world.subject)
            bar.advance(task)
    rows = [found.as_json() | as_json(proofs.get(found.world.subject.name)) for found in done]
    if form == "json":
        print(json.dumps(rows, ensure_ascii=False, indent=1))
    elif form == "markdown":
        print(markdown(rows))
    else:
        for found in done:
            _print(found, proofs.get(found.world.subject.name))
    for found in done:
        for faults, what in found.nameless.items():
            print(
                f"wrong, and no anomaly has a name for it: {found.world.subject.name},"
                f" {POLICIES[found.world.policy]}, {name_of(faults)}: {what}",
                file=sys.stderr,
            )
    return 1 if any(found.nameless for found in done) else 0


def as_json(proof: Proof | None) -> dict[str, Any]:
    """What is proved, as a part of a JSON object."""
    if proof is None or not proof.holds:
        return {"proved": None, "never": []}
    return {"proved": proof.statement, "never": list(proof.never)}


def _print(found: Explored, proof: Proof | None) -> None:
    out, world = console(), found.world
    out.print(
        Text.assemble(
            (world.subject.name, "bold"),
            f": {world.location}, {world.era}; {FLEETS[world.fleet]}; {POLICIES[world.policy]}",
        )
    )
    never: list[str] = []
    shown = Table.grid(padding=(0, 2, 0, 0))
    shown.add_column(no_wrap=True, style="red")
    for anomaly in ANOMALIES:
        sets = found.witnesses.get(anomaly.name, [])
        if not sets:
            never.append(anomaly.name)
            continue
        named = " | ".join(map(name_of, sets[:SHORT]))
        more = f" and {len(sets) - SHORT} more" if len(sets) > SHORT else ""
        shown.add_row(anomaly.name, Text.assemble(named, (more, "dim")))
    tried = (
        f"{plural(found.histories, 'history', 'histories')} with up to {plural(found.bound, 'fault')}"
    )
    lines = [shown] if shown.rows else []
    lines += [f"none in {tried}: {', '.join(never)}"]
    if proof is not None and proof.holds:
        lines += [f"{proof.statement}; never: {', '.join(proof.never)}"]
    for line in lines:
        out.print(Padding(line, (0, 0, 0, 2), expand=False))
    out.print()


def name_of(faults: Faults) -> str:
    """A set of faults as it is written on the command line."""
    return " ".join(map(str, faults)) or "no fault"


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table: a row for each world, a column for each anomaly that any of them shows.

    Args:
        rows: What `--json` prints.
    """
    shown = [each.name for each in ANOMALIES if any(each.name in row["witnesses"] for row in rows)]
    cells = (
        (
            short(row["subject"]),
            POLICIES[row["policy"]].removeprefix("the client "),
            *(weakest(row, anomaly) for anomaly in shown),
            f"{row['histories']:,}",
        )
        for row in rows
    )
    return table(("subject", "client", *shown, "histories"), cells)


def short(subject: str) -> str:
    """A subject's name with marks for what is around it: "F¹ᵏ"."""
    for name, mark in ((SINGLE_USE, "¹"), (LEGACY_SHIM, "²"), (CALL_KEY, "ᵏ")):
        subject = subject.replace(f"+{name}", mark)
    return subject


def weakest(row: Mapping[str, Any], anomaly: str) -> str:
    """The smallest witness of an anomaly, the most common fault first, or how far there is none.

    Args:
        row: What `--json` prints of a world.
        anomaly: Its name.
    """
    if sets := row["witnesses"].get(anomaly):
        return f"`{weakest_of(sets) or 'no fault'}`"
    return "never" if anomaly in row["never"] else f"never (≤ {row['bound']})"


def weakest_of(sets: Sequence[str]) -> str:
    """The smallest of some sets of faults, of several the one with the most common faults."""
    return min(sets, key=lambda faults: (len(faults.split()), rank(faults)))


MILDEST = ("lost", "twice", "both", "old", "failover", "gone", "restart", "crash", "down", "fail")
"""The faults that happen without anything being broken, and then the others."""


def rank(faults: str) -> list[int]:
    """What sorts faults, the most common first."""
    kinds = [re.split(r"[@\d]", name)[0] for name in faults.split()]
    return [MILDEST.index(kind) if kind in MILDEST else len(MILDEST) for kind in kinds]
