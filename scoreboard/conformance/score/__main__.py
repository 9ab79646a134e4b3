"""The command line: `python -m scoreboard.conformance.score [NAME ...]` runs the suite on every mutant.

What is kept in docs/suite-score.json is not run again while the code is the same, so an interrupted run
goes on where it was; `NAME` names mutants to run in any case. At the end docs/SUITE.md has the new
score. Exit code: 0 done, 2 bad input or no npm, 130 after Ctrl-C.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mrtr_options.show.conformance import SUITE
from mrtr_options.show.terminal import Parser, refuse, run
from scoreboard.conformance.score.table import (
    BAD,
    PAGE,
    PROGRAMS,
    RESULTS,
    ROOT,
    Kept,
    Outcome,
    Side,
    code_of,
    numbers,
    read,
    renewed,
)

INSTALLED = ROOT / "build" / "suite"
PACKAGES = (f"@modelcontextprotocol/conformance@{SUITE}", "node@22")
CLIENT_SCENARIOS = (
    *("sep-2322-client-request-state", "request-metadata", "tools_call"),
    *("http-standard-headers", "http-custom-headers", "http-invalid-tool-headers"),
)
"""The suite's client scenarios about anything but authorization and schemas."""
_SEVERITY = ("SKIPPED", "INFO", "SUCCESS", *reversed(BAD))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = Parser(
        prog="python -m scoreboard.conformance.score",
        description=f"The official conformance suite {SUITE} against broken servers and clients.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="mutants to run again; without: what changed"
    )
    names: list[str] = parser.parse_args(argv).names
    every = {name for programs in PROGRAMS.values() for name in programs}
    if unknown := [name for name in names if name not in every]:
        refuse(f"there is no mutant {unknown[0]!r}")
    if shutil.which("npm") is None:
        refuse("the suite needs node and npm: apt-get install nodejs npm, or the like")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else a server would be left behind
    return run(lambda: _score(names))


def _score(again: Sequence[str]) -> int:
    kept = read() if RESULTS.exists() else Kept()
    if kept.suite != SUITE:
        kept = Kept()
    to_run: list[tuple[Side, str, str]] = []
    for side, programs in PROGRAMS.items():
        outcomes = kept.of(side)
        for name in outcomes.keys() - programs.keys():  # what is no longer there
            del outcomes[name]
        for name in programs:
            code = code_of(side, name)
            if name in again or name not in outcomes or outcomes[name].code != code:
                to_run.append((side, name, code))
    if to_run:
        install()
    for number, (side, name, code) in enumerate(to_run, 1):
        checks = of_server(name) if side == "server" else of_client(name)
        if name != "correct":
            before = kept.of(side)["correct"].checks
            checks = {check: status for check, status in checks.items() if before.get(check) != status}
        kept.of(side)[name] = Outcome(code=code, checks=checks)
        found = "" if name == "correct" else ", ".join(kept.found_by(side, name)) or "survived"
        print(f"{number}/{len(to_run)} {side} {name}: {found or len(checks)}", flush=True)
        RESULTS.write_text(kept.model_dump_json(indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8"), kept), encoding="utf-8")
    print(numbers(kept).replace("**", ""))
    return 0


def install() -> None:
    """Install the suite and the Node that it needs, unless this version is there."""
    manifest = INSTALLED / "node_modules" / "@modelcontextprotocol" / "conformance" / "package.json"
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


def conformance(*arguments: str) -> dict[str, str]:
    """Run the suite; the worst status of each check by its id."""
    binaries = INSTALLED / "node_modules" / ".bin"
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="mrtr-suite-") as out:
        command = ["conformance", *arguments, "--spec-version", "2026-07-28", "-o", out]
        ran = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PATH": path},
            cwd=ROOT,
        )
        checks: dict[str, str] = {}
        for file in sorted(Path(out).glob("**/checks.json")):
            for check in json.loads(file.read_bytes()):
                states = (checks.get(check["id"], "SKIPPED"), check["status"])
                checks[check["id"]] = max(states, key=_SEVERITY.index)
    if not checks:
        raise RuntimeError(f"the suite checked nothing: {ran.stdout}{ran.stderr}")
    return dict(sorted(checks.items()))


def of_server(name: str) -> dict[str, str]:
    """What the suite says of a server."""
    with serving(name) as url:
        return conformance("server", "--url", url, "--suite", "all")


@contextmanager
def serving(name: str) -> Generator[str]:
    """The URL of a server process, which ends with the block."""
    command = [sys.executable, "-m", f"{__package__}.correct", *([] if name == "correct" else [name])]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    ) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def of_client(name: str) -> dict[str, str]:
    """What the suite says of a client."""
    command = f"{sys.executable} -m {__package__}.client {name}"
    checks: dict[str, str] = {}
    for scenario in CLIENT_SCENARIOS:
        found = conformance("client", "--command", command, "--scenario", scenario)
        for check, status in found.items():
            checks[check] = max(checks.get(check, "SKIPPED"), status, key=_SEVERITY.index)
    return dict(sorted(checks.items()))


if __name__ == "__main__":
    sys.exit(main())
