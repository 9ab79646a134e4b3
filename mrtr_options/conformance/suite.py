"""The suite itself: installing it, running one scenario of it, reading what it found.

It is a program for Node, of a version that it brings along. Knows npm and the files that the suite
writes; nothing of what is tested.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
from pydantic import BaseModel, TypeAdapter, ValidationError

from mrtr_options.conformance.scenarios import SUITE

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "conformance"
NODE = FOLDER / "node_modules" / "node" / "bin" / "node"
PACKAGE = FOLDER / "node_modules" / "@modelcontextprotocol" / "conformance"
PACKAGES = (f"@modelcontextprotocol/conformance@{SUITE}", "node@22")
INSTALL_SECONDS = 300.0
SCENARIO_SECONDS = 60.0

Status = Literal["pass", "warn", "fail", "cannot"]


class CannotInstall(Exception):
    """The suite cannot be had. The text is one line that says what to do."""


# --- installing ---------------------------------------------------------------------------------


def installed() -> bool:
    """Whether this version is there."""
    try:
        about = json.loads((PACKAGE / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return about.get("version") == SUITE and NODE.is_file()


async def install() -> None:
    """Install it in a folder of its own, where it is kept. npm ends with whoever cancels this.

    Raises:
        CannotInstall: There is no npm, or npm could not do it.
    """
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise CannotInstall(
            "the conformance suite needs node and npm, which are not installed:"
            " apt-get install nodejs npm, or the like"
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), *PACKAGES]
    try:
        with anyio.fail_after(INSTALL_SECONDS), tempfile.TemporaryFile() as errors:
            code = await _ended(command, cwd=FOLDER, stderr=errors)
            errors.seek(0)
            lines = errors.read().decode(errors="replace").splitlines()
    except TimeoutError:
        raise CannotInstall(
            f"npm did not install the suite within {INSTALL_SECONDS:.0f} s; try again"
        ) from None
    if code != 0 or not installed():
        said = [line for line in lines if "error" in line.lower()]
        why = said[0] if said else f"exit code {code}"
        raise CannotInstall(f"npm could not install {' and '.join(PACKAGES)}: {why}")


async def _ended(command: list[str], **options: Any) -> int:
    """Run a program to its end, or kill it where this is cancelled; its exit code."""
    code = 0
    with anyio.CancelScope(shield=True) as beginning:  # else one that begins would be left behind
        process = await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **options
        )
        beginning.shield = False
        async with process:
            code = await process.wait()
    return code


# --- what it found ------------------------------------------------------------------------------


class Check(BaseModel):
    """One check of a scenario, as the suite writes it down.

    Attributes:
        id: Its name, which several checks of a scenario may share.
        status: SUCCESS, FAILURE, WARNING, SKIPPED or INFO.
        message: What is wrong.
    """

    id: str
    status: str
    errorMessage: str | None = None  # noqa: N815 (the suite's name)


@dataclass(frozen=True)
class Outcome:
    """One scenario against one column.

    Attributes:
        column, scenario: Which.
        seconds: How long it took.
        checks: What the suite checked.
        problem: Why there are no checks to go by, if there are none.
        cannot: Why it was not run, if it was not.
    """

    column: str
    scenario: str
    seconds: float = 0.0
    checks: tuple[Check, ...] = ()
    problem: str | None = None
    cannot: str | None = None

    @property
    def status(self) -> Status:
        """What it comes to. A warning is a SHOULD that was not kept; the suite lets it pass."""
        if self.cannot is not None:
            return "cannot"
        found = {check.status for check in self.checks}
        if self.problem is not None or "FAILURE" in found:
            return "fail"
        return "warn" if "WARNING" in found else "pass"

    @property
    def complaints(self) -> dict[str, str]:
        """What is wrong, by the check's id."""
        found = {
            check.id: check.errorMessage or ""
            for check in self.checks
            if check.status in ("FAILURE", "WARNING")
        }
        return found if self.problem is None else {**found, "run": self.problem}


_CHECKS = TypeAdapter(tuple[Check, ...])


def read_checks(folder: Path, exit_code: int) -> tuple[tuple[Check, ...], str | None]:
    """The checks that a run left behind, and why they are not to be relied on, if they are not.

    The suite ends with 0 where it has skipped a scenario, so a run that checked nothing is a problem.

    Args:
        folder: Where the suite was told to write.
        exit_code: The suite's.
    """
    files = list(folder.glob("*/checks.json"))
    if len(files) != 1:
        return (), f"the suite wrote no result (exit code {exit_code})"
    try:
        checks = _CHECKS.validate_json(files[0].read_bytes())
    except ValidationError:
        return (), "the suite's result cannot be read"
    if not any(check.status in ("SUCCESS", "FAILURE", "WARNING") for check in checks):
        return checks, "the suite checked nothing"
    if exit_code != 0 and not any(check.status == "FAILURE" for check in checks):
        return checks, f"the suite ended with exit code {exit_code} and without a failure"
    return checks, None


async def run_scenario(
    arguments: Sequence[str], column: str, scenario: str, version: str | None, folder: Path
) -> Outcome:
    """Run one scenario, for a bounded time.

    Args:
        arguments: What the suite is told of its other end.
        column: For the outcome.
        scenario: Its name.
        version: The version of the protocol to name, or None.
        folder: An empty one to write to.
    """
    command = [str(NODE), str(PACKAGE / "dist" / "index.js"), *arguments, "--scenario", scenario]
    command += ["-o", str(folder)] + (["--spec-version", version] if version else [])
    begun = time.perf_counter()
    with anyio.move_on_after(SCENARIO_SECONDS):
        code = await _ended(
            command, cwd=ROOT, stderr=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1"}
        )
        checks, problem = read_checks(folder, code)
        return Outcome(column, scenario, time.perf_counter() - begun, checks, problem)
    took = time.perf_counter() - begun
    return Outcome(column, scenario, took, problem=f"not done after {SCENARIO_SECONDS:.0f} s")
