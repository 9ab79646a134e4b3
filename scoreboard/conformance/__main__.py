"""The command line: `python -m scoreboard.conformance [SERVER ...]` runs the suite's own runner.

Each server is started, and judged by the suite against its file of expected failures. Exit code: 0
for the expected results, 1 for other results, 2 for bad input or without npm, 130 after Ctrl-C. A
complete run is kept in docs/data/conformance.json, from which `python -m documents --kept` writes
its tables.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mrtr_options.terminal import Parser, refuse, run
from scoreboard.conformance import require_node, serving
from scoreboard.conformance.report import EXPECTED, KEPT, SUITE, Results

# npx caches the packages. The suite needs Node 22.
SUITE_COMMAND = (
    "npx",
    "--yes",
    "-p",
    f"@modelcontextprotocol/conformance@{SUITE}",
    "-p",
    "node@22",
)

DRAFT = (("--suite", "draft", "--spec-version", "2026-07-28"),)
"""The suite's arguments: the scenarios of 2026-07-28."""

TASKS = tuple(
    ("--scenario", f"tasks-{name}")
    for name in (
        "lifecycle",
        "capability-negotiation",
        "wire-fields",
        "request-state-removal",
        "mrtr-input",
        "request-headers",
        "dispatch-and-envelope",
        "required-task-error",
        "mrtr-composition",
    )
)
"""The suite's arguments for K, a scenario at a time: with a version, the suite skips these.

Without `tasks-status-notifications`, which checks nothing in this version of the suite.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return the exit code."""
    parser = Parser(
        prog="python -m scoreboard.conformance",
        description=f"The official conformance suite {SUITE} against every style.",
    )
    parser.add_argument(
        "servers", nargs="*", metavar="SERVER", help=f"of {' '.join(EXPECTED)}; all"
    )
    names: list[str] = parser.parse_args(argv).servers
    unknown = [name for name in names if name not in EXPECTED]
    if unknown:
        refuse(f"there is no server {unknown[0]!r}; there are {', '.join(EXPECTED)}")
    if not KEPT.path.parent.is_dir():
        refuse("the suite is run in a clone of the repository; this is not one")
    require_node()
    results: dict[str, dict[str, str]] = {}
    wrong = False
    for name in names or sorted(EXPECTED):
        results[name], good = judged(name)
        found = list(results[name].values())
        print(f"{name:<10}{'as expected' if good else 'NOT AS EXPECTED':<17}", end="")
        print(", ".join(f"{found.count(each)} {each}" for each in dict.fromkeys(found)), flush=True)
        wrong = wrong or not good
    if not names and not wrong:
        KEPT.write(Results(suite=SUITE, results=results))
    return 1 if wrong else 0


def judged(name: str) -> tuple[dict[str, str], bool]:
    """Return the result of each scenario, and whether all results were expected.

    The suite's exit codes say whether they were expected.
    """
    expected = Path(__file__).parent / "expected" / EXPECTED[name]
    runs = TASKS if name == "K" else DRAFT
    good = True
    with (
        tempfile.TemporaryDirectory(prefix="mrtr-conformance-") as out,
        serving("styles", name) as url,
    ):
        for scenarios in runs:
            command = [*SUITE_COMMAND, "conformance", "server", "--url", url, *scenarios]
            command += ["--expected-failures", str(expected), "-o", out]
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
            if ran.returncode:
                good = False
                print(ran.stdout, ran.stderr, sep="", file=sys.stderr)
        results = {
            re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*", "", file.parent.name): status_of(file)
            for file in sorted(Path(out).glob("*/checks.json"))
        }
    is_complete = len(results) >= len(runs)  # a skipped scenario also ends with exit code 0
    return results, good and is_complete


def status_of(checks: Path) -> str:
    """Return the status of a scenario from its checks: passed, failed, or warned of a SHOULD."""
    found = {check["status"] for check in json.loads(checks.read_bytes())}
    if "FAILURE" in found or "SUCCESS" not in found:
        return "failed"
    return "warned" if "WARNING" in found else "passed"


if __name__ == "__main__":
    sys.exit(run(main))
