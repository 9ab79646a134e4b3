"""Tests that an untried fault is never shown as "not seen", on an option without next versions."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mrtr_options.tool.catalogue import option_named
from tests.commands import copy_of_the_project, run

pytestmark = [pytest.mark.slow, pytest.mark.evidence("what was not tried")]

KEPT = "mrtr_options/review/bench/next_versions/n.toml"
WHY = f"no next version of option N is kept; add {KEPT}"
LINE = f"not tried: redeploy ({WHY})"

Command = Callable[[str], str]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project and add option N: F's code, without F's next versions."""
    copy = copy_of_the_project(tmp_path_factory.mktemp("not_tried"))
    source = option_named("F").source.replace("Option F", "Option N").replace("-f", "-n")
    (copy / "mrtr_options" / "option_n_once.py").write_text(source, encoding="utf-8")
    return copy


@pytest.fixture(scope="module")
def command(copy: Path) -> Command:
    def done(arguments: str) -> str:
        ended = run(f"python -m {arguments}", copy)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return " ".join(ended.stdout.split())

    return done


def test_explore_says_what_was_not_tried(command: Command) -> None:
    told = command("mrtr_options explore N --client resends")
    assert LINE in told
    assert re.search(r"not tried: redeploy .*asked twice", told)
    assert "not seen" not in told
    (row,) = json.loads(command("mrtr_options explore N --client resends --json"))
    assert row["not_tried"] == {"redeploy": WHY}
    assert "asked twice" not in row["witnesses"]
    table = command("mrtr_options explore F N --client resends --markdown")
    assert "| redeploy (`redeploy3`) |" in table  # the column of F
    assert "| not tried: redeploy |" in table
    assert f"not tried on N: redeploy ({WHY})" in table


def test_check_says_what_was_not_tried_and_what_may_still_happen(
    command: Command, tmp_path: Path
) -> None:
    quick = "--only clean-springfield,redeploy-reworded --drawn 0 --faults 1"
    html = tmp_path / "report.html"
    told = command(f"mrtr_options check N {quick} --html {html}")
    assert f"left out: 1 run with a redeploy: {WHY}" in told
    assert LINE in told
    assert re.search("not tried: redeploy; so this may still happen: .*asked twice", told)
    assert "so this may still happen" in html.read_text(encoding="utf-8")
    found = json.loads(command(f"mrtr_options check N {quick} --json"))
    assert found["explored"]["not_tried"] == {"redeploy": WHY}


@pytest.fixture(scope="module")
def part(copy: Path, command: Command) -> Callable[[str], str]:
    """Explore and play N in the copy, and return its parts of the documents by name."""
    command("documents --explore N --faults 1 docs/results/API.md")
    made = copy / "made.py"
    made.write_text(MAKE, encoding="utf-8")
    ended = run("python made.py", copy)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout).__getitem__


MAKE = """
import json

import anyio

from documents.page.document import document
from documents.page.runs import tell_one, worlds_of
from documents.explored import read
from documents.parts import OF_RUNS, PARTS
from mrtr_options.review.bench.schedules import SCHEDULES
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.judge import grid

REDEPLOYS = [each for each in SCHEDULES.values() if each.scenario.changes]
subjects = [*map(subject_named, "FN")]
runs = anyio.run(
    grid.run, grid.cells(subjects, schedules=REDEPLOYS + [SCHEDULES["lost-final"]])
)
names = ("leading", "redeploys", "redeploys, effects", "questions-by-position: affected")
made = {name: OF_RUNS[name](runs) for name in names} | {"anomalies": PARTS["anomalies"]()}
worlds = worlds_of(row for row in read() if row["subject"] in ("F", "N"))
shown = document([tell_one(*called, row) for called, row in worlds.items()])
made["page"] = {name: shown[name] for name in ("untried", "worlds", "anomalies")}
print(json.dumps(made))
"""


def test_results_says_not_tried_in_each_cell(part: Callable[[str], str]) -> None:
    rows = [line for line in part("anomalies").splitlines() if line.startswith("| N | resends")]
    assert "not tried: redeploy" in rows[0]
    assert "not seen" not in rows[0]
    assert f"not tried on N: redeploy ({WHY})" in part("anomalies")
    head, _, *fates = part("redeploys").splitlines()
    assert head.endswith("| N |")
    assert all(line.endswith("| not tried |") for line in fates)
    assert part("redeploys, effects").count("not tried") == 2
    assert "N | 0 | 0 | 0 | 0 | 0 | 22 |" in part("questions-by-position: affected")
