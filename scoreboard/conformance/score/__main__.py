"""The command line: `python -m scoreboard.conformance.score [NAME ...]` runs the suite on mutants.

A result in docs/data/suite-score.json is reused while the code is the same, so an interrupted run
goes
on where it was; `NAME` names mutants to run in any case. At the end docs/results/SUITE.md has the
new
score. `--url URL` runs the proposed scenarios on a running server. Exit code: 0 when done, 2 for
bad input or without npm, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pydantic import BaseModel, Field

from mrtr_options.terminal import Parser, refuse, run
from scoreboard.conformance import require_node, serving
from scoreboard.conformance.report import SUITE
from scoreboard.conformance.score.table import (
    BAD,
    KEPT,
    PROGRAMS,
    ROOT,
    SCENARIOS,
    Outcome,
    Side,
    SuiteRuns,
    code_of,
    numbers,
)

INSTALLED = ROOT / "build" / "suite"
MAIN = INSTALLED / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
PACKAGES = (f"@modelcontextprotocol/conformance@{SUITE}", "node@22")
CLIENT_SCENARIOS = (
    "sep-2322-client-request-state",
    "request-metadata",
    "tools_call",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
)
"""The suite's client scenarios, without those about authorization and schemas."""

CLIENT_CONDUCT = "sep-2322-client-conduct"
"""The proposed scenario for clients."""

AT_ONCE = 2
"""The number of programs that run at a time; most of a run is waiting."""

_SEVERITY = ("SKIPPED", "INFO", "SUCCESS", *reversed(BAD))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.conformance.score",
        description=f"The official conformance suite {SUITE} against broken servers and clients.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="mutants to run again; without: what changed"
    )
    parser.add_argument(
        "--url", help="run the proposed scenarios on a server at this URL, and keep nothing"
    )
    args = parser.parse_args(argv)
    names: list[str] = args.names
    every = {name for programs in PROGRAMS.values() for name in programs}
    unknown = [name for name in names if name not in every]
    if unknown:
        refuse(f"there is no mutant {unknown[0]!r}")
    require_node()
    return _judge(args.url) if args.url else _score(names)


def _judge(url: str) -> int:
    install()
    for check in of_server(url, proposed=True):
        print(f"{check.status:<8} {check.id} {check.message}".rstrip())
    return 0


def _score(again: Sequence[str]) -> int:
    kept = KEPT.read(SuiteRuns())
    if kept.suite != SUITE:
        kept = SuiteRuns()
    to_run: list[tuple[Side, str, str]] = []
    for side, programs in PROGRAMS.items():
        outcomes = kept.of(side)
        for name in outcomes.keys() - programs.keys():  # programs that are no longer here
            del outcomes[name]
        for name in programs:
            code = code_of(side, name)
            if name in again or name not in outcomes or outcomes[name].code != code:
                to_run.append((side, name, code))
    if to_run:
        install()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = pool.map(checks_of, to_run)
        for number, ((side, name, code), checks) in enumerate(zip(to_run, runs, strict=True), 1):
            keep(kept, side, name, Outcome(code=code, checks=checks))
            found = "" if name == "correct" else ", ".join(kept.found_by(side, name)) or "survived"
            print(f"{number}/{len(to_run)} {side} {name}: {found or len(checks)}", flush=True)
    print(numbers(kept).replace("**", ""))
    return 0


def checks_of(program: tuple[Side, str, str]) -> dict[str, str]:
    """Return the suite's checks of a program, or those of the proposed scenarios."""
    side, name, _ = program
    is_proposed = side.startswith("proposed")
    if side.endswith("client"):
        command = f"{sys.executable} -m {__package__}.client {name}"
        scenarios = [CLIENT_CONDUCT] if is_proposed else CLIENT_SCENARIOS
        return worst(
            check
            for scenario in scenarios
            for check in conformance(
                "client", "--command", command, "--scenario", scenario, proposed=is_proposed
            )
        )
    with serving("score.correct", *([] if name == "correct" else [name])) as url:
        return worst(of_server(url, proposed=is_proposed))


def keep(kept: SuiteRuns, side: Side, name: str, outcome: Outcome) -> None:
    """Keep the checks of a run; of a mutant, only those that differ from the correct program's."""
    if name != "correct":
        before = kept.of(side)["correct"].checks
        outcome.checks = {
            check: status for check, status in outcome.checks.items() if before.get(check) != status
        }
    kept.of(side)[name] = outcome
    KEPT.write(kept)


def install() -> None:
    """Install the suite and the Node that it needs, unless this version is there."""
    manifest = MAIN.parents[1] / "package.json"
    if manifest.exists() and json.loads(manifest.read_bytes())["version"] == SUITE:
        return
    INSTALLED.mkdir(parents=True, exist_ok=True)
    command = [
        "npm",
        "install",
        "--silent",
        "--no-audit",
        "--no-fund",
        "--prefix",
        str(INSTALLED),
        *PACKAGES,
    ]
    subprocess.run(command, check=True)


class Check(BaseModel):
    """The result of one check of the suite."""

    id: str
    status: str
    message: str = Field("", alias="errorMessage")


def conformance(*arguments: str, proposed: bool = False) -> list[Check]:
    """Run the suite, with or without the proposed scenarios."""
    binaries = INSTALLED / "node_modules" / ".bin"
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="mrtr-suite-") as out:
        more = ("--import", str(SCENARIOS.with_name("published.mjs"))) if proposed else ()
        command = ["node", *more, str(MAIN), *arguments, "--spec-version", "2026-07-28", "-o", out]
        env = os.environ | {"PATH": path} | ({"ONLY_ADDED": "1"} if proposed else {})
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, env=env, cwd=ROOT
        )
        files = sorted(Path(out).glob("**/checks.json"))
        checks = [
            Check.model_validate(each) for file in files for each in json.loads(file.read_bytes())
        ]
    if not checks:
        raise RuntimeError(f"the suite checked nothing: {ran.stdout}{ran.stderr}")
    return checks


def worst(checks: Iterable[Check]) -> dict[str, str]:
    """Return the worst status of each check, by its id."""
    statuses: dict[str, str] = {}
    for check in checks:
        before = statuses.get(check.id, "SKIPPED")
        statuses[check.id] = max(before, check.status, key=_SEVERITY.index)
    return dict(sorted(statuses.items()))


def of_server(url: str, *, proposed: bool) -> list[Check]:
    """Run the suite on a server, with or without the proposed scenarios."""
    return conformance("server", "--url", url, "--suite", "all", proposed=proposed)


if __name__ == "__main__":
    sys.exit(run(main))
