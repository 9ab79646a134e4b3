"""Runs scenarios against columns: a server process for each, two columns at a time.

Knows the columns and the suite; nothing of how results are shown.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from mrtr_options.conformance.columns import EXPECTED, Column
from mrtr_options.conformance.scenarios import CLIENT, spec_version
from mrtr_options.conformance.suite import ROOT, Outcome, run_scenario

AT_A_TIME = 2
START_SECONDS = 60.0
STOP_SECONDS = 10.0


class DidNotStart(Exception):
    """A server did not come up. The text says why."""


async def run(
    columns: Sequence[Column], scenarios: Iterable[str] | None, tell: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run scenarios against columns.

    Args:
        columns: What to test.
        scenarios: Which scenarios; None for all that a column has.
        tell: Told each outcome as it comes.

    Returns:
        The outcomes by column and scenario, in the order of both.
    """
    wanted = None if scenarios is None else set(scenarios)
    outcomes: dict[tuple[str, str], Outcome] = {}
    limiter = anyio.CapacityLimiter(AT_A_TIME)

    def note(outcome: Outcome) -> None:
        outcomes[outcome.column, outcome.scenario] = outcome
        tell(outcome)

    async def test(column: Column, scenarios: list[str], folder: Path) -> None:
        for scenario in scenarios:
            if scenario in column.cannot:
                note(Outcome(column.name, scenario, cannot=column.cannot[scenario]))
        runnable = [scenario for scenario in scenarios if scenario not in column.cannot]
        if not runnable:
            return
        async with limiter:
            await _test(column, runnable, folder, note)

    with tempfile.TemporaryDirectory(prefix="mrtr-conformance-") as folder:
        async with anyio.create_task_group() as tests:
            for column in columns:
                chosen = [each for each in column.scenarios if wanted is None or each in wanted]
                tests.start_soon(test, column, chosen, Path(folder))
    order = [(column.name, scenario) for column in columns for scenario in column.scenarios]
    return [outcomes[each] for each in order if each in outcomes]


async def _test(
    column: Column, scenarios: list[str], folder: Path, note: Callable[[Outcome], None]
) -> None:
    async def one(scenario: str, arguments: Sequence[str]) -> None:
        into = folder / column.name / scenario
        into.mkdir(parents=True)
        note(await run_scenario(arguments, column.name, scenario, spec_version(scenario), into))

    if column.scenarios == CLIENT:
        command = shlex.join([sys.executable, "-m", f"{__package__}.client"])
        for scenario in scenarios:
            await one(scenario, ["client", "--command", command])
        return
    left = list(scenarios)
    try:
        async with served(column, folder / f"{column.name}.log") as url:
            while left:
                await one(left[0], ["server", "--url", url])
                del left[0]
    except DidNotStart as problem:
        for scenario in left:
            note(Outcome(column.name, scenario, problem=str(problem)))


@asynccontextmanager
async def served(column: Column, log: Path) -> AsyncGenerator[str]:
    """The column's server in a process of its own; yields its URL.

    Args:
        column: Whose.
        log: Where its standard error goes.

    Raises:
        DidNotStart: It ended, or took too long.
    """
    command = [sys.executable, "-m", f"{__package__}.columns", column.name]
    with log.open("wb") as errors:
        # The pipe to its standard input is what it lives by: it ends when this process does.
        process = await anyio.open_process(command, cwd=ROOT, stdin=subprocess.PIPE, stderr=errors)
    assert process.stdout is not None
    try:
        line = b""
        with anyio.move_on_after(START_SECONDS):
            try:
                while not line.endswith(b"\n"):
                    line += await process.stdout.receive()
            except anyio.EndOfStream:
                pass
        if not line.endswith(b"\n"):
            said = await anyio.Path(log).read_text(encoding="utf-8", errors="replace")
            last = said.strip().rpartition("\n")[2]
            raise DidNotStart(f"its server did not start: {last or 'it says nothing'}")
        yield line.decode().strip()
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
            with anyio.move_on_after(STOP_SECONDS):
                await process.wait()
            if process.returncode is None:
                process.kill()
            await process.aclose()


def unexpected(outcomes: Iterable[Outcome]) -> list[str]:
    """What is not as it was expected, a line each; see `columns.EXPECTED`."""
    lines: list[str] = []
    for outcome in outcomes:
        complaints, where = outcome.complaints, f"{outcome.column} {outcome.scenario}"
        of_this = {check for *this, check in EXPECTED if this == [outcome.column, outcome.scenario]}
        lines += [
            f"{where}: {check}: {complaints[check]}" for check in complaints if check not in of_this
        ]
        lines += [
            f"{where}: {check} is expected to complain and does not; take it off the list"
            for check in sorted(of_this - complaints.keys())
        ]
    return lines
