"""Tests of CONTRIBUTING: its steps, followed to the letter on a copy of the project."""

import json
import re
from pathlib import Path
from textwrap import indent

import pytest

from tests.commands import REPOSITORY, commands_in, copy_of_the_project, run

pytestmark = pytest.mark.slow

NOTES = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
ELSEWHERE = {
    "make lint": "it needs no copy",
    "python -m mrtr_options check N": "tests/judge/test_check.py does it",
    "make test": "it runs this test",
    "python -m documents --explore N": "it is run with one fault, on a page without runs",
    "make page notebooks": "tests/documents/test_page.py and tests/show/test_notebooks.py do",
}
"""Commands that are not run here, and the reasons."""


def section(title: str) -> str:
    """Return a section of the notes."""
    return re.split(r"^## ", NOTES.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def code_in(text: str, language: str = "python", at: int = 0) -> str:
    """Return a block of code in a section."""
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)[at]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Copy the project for the steps."""
    return copy_of_the_project(tmp_path)


def done(command: str, copy: Path) -> str:
    """Run a command in the copy, and return its output."""
    ended = run(command, copy)
    assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
    return ended.stdout


@pytest.mark.evidence("steps of CONTRIBUTING")
def test_an_option_is_a_file_with_its_next_versions_and_is_everywhere(copy: Path) -> None:
    explored = copy / "docs" / "data" / "explored.json"
    before = json.loads(explored.read_text(encoding="utf-8"))
    with (copy / "mrtr_options" / "guarantees.toml").open("a", encoding="utf-8") as table:
        table.write("\n" + code_in(section("An option"), "toml"))
    commands = commands_in(section("An option"))
    printed = {command: done(command, copy) for command in commands if command not in ELSEWHERE}
    assert "N yours" in printed["python -m mrtr_options diff --stat"]
    assert "N" in {row["option"] for row in json.loads(done("python -m mrtr_options --json", copy))}
    (explore,) = (each for each in commands if "--explore" in each)
    done(f"{explore} --faults 1 docs/results/API.md", copy)
    after = json.loads(explored.read_text(encoding="utf-8"))
    assert [row for row in after if row["subject"] != "N"] == before
    assert "the 14 options behave in 9 ways" in documented("leading", copy, "OF_RUNS", of="[]")
    options = documented("options", copy)
    assert "| [yours (N)](mrtr_options/option_n_yours.py) |" in options


def put(entry: str, table: str, before: str, copy: Path) -> None:
    """Put a row, a function or a check into a file, with its indentation."""
    file = copy / "mrtr_options" / table
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    end = ",\n" if entry.startswith("make_schedule(") else "\n\n\n"
    entry = indent(entry.rstrip() + end, before[: len(before) - len(before.lstrip())])
    file.write_text(text.replace(before, entry + before), encoding="utf-8")


def documented(part: str, copy: Path, table: str = "PARTS", of: str = "") -> str:
    """Make a part of the documents from the copy; `of` is its argument, if it takes one."""
    made = f"from documents.parts import {table}; print({table}['{part}']({of}))"
    return done(f'python -c "{made}"', copy)


RULES = "review/judge/contract/"
PLACES = {
    "A fault": [("review/bench/faults/before.py", '@fault(\n    "other",')],
    "A schedule": [("review/bench/schedules.py", "        # other versions of the code\n")],
    "A client": [("review/bench/policies.py", '@policy("resends"')],
    "A property": [("review/judge/anomalies.py", '@anomaly(\n    "call lost",')],
    "A rule": [
        (f"{RULES}rules.py", "RULES = by_name("),
        (f"{RULES}responses.py", "    reply = one.reply\n    ruling = "),
    ],
}
"""The file for each block of code in a section, and the text that the code is put before."""


@pytest.mark.evidence("steps of CONTRIBUTING")
@pytest.mark.parametrize(
    ("heading", "shown", "part", "documents"),
    [
        (
            "A fault",
            "one fault: half a minute passes before request 3 (late3)",
            "kinds of fault",
            "| `late` | half a minute passes before the request | time |",
        ),
        (
            "A schedule",
            "two-duplicates",
            "deployments",
            "| `two` | two instances in memory | 103 |",
        ),
        (
            "A client",
            "E, modern client that insists, 'Springfield'",
            "options",
            "| result lost, the client insists |",
        ),
        (
            "A property",
            "answer wasted; call lost",
            "kinds of anomaly",
            "| answer wasted | The user",
        ),
        (
            "A rule",
            "E breaks the rule states-fit-a-column under clean-tokyo",
            "rules",
            "states-fit-a-column",
        ),
    ],
)
def test_a_new_row_is_played_and_in_the_documents(
    heading: str, shown: str, part: str, documents: str, copy: Path
) -> None:
    for number, place in enumerate(PLACES[heading]):
        put(code_in(section(heading), at=number), *place, copy)
    (command,) = commands_in(section(heading))
    ended = run(command, copy)
    assert shown in ended.stdout, ended.stdout + ended.stderr
    assert ended.returncode == (heading == "A rule")
    assert documents in documented(part, copy)


@pytest.mark.evidence("steps of CONTRIBUTING")
def test_a_new_deployment_is_one_new_file(copy: Path) -> None:
    part = section("A deployment")
    (name,) = re.findall(r"Here `(\w+\.py)`", part)
    file = copy / "mrtr_options" / "review" / "bench" / "deployments" / name
    file.write_text(code_in(part), encoding="utf-8")
    (command,) = commands_in(part)
    said = done(command, copy)
    assert "modern client, two instances in memory, slow effects" in said
    assert "| `slow` | two instances in memory, slow effects | 102 |" in documented(
        "deployments", copy
    )


@pytest.mark.evidence("steps of CONTRIBUTING")
def test_a_new_mutant_is_caught_by_the_guarantee_that_it_names(copy: Path) -> None:
    part = section("A mutant")
    with (copy / "tests" / "mutants" / "mutants.toml").open("a", encoding="utf-8") as file:
        file.write("\n" + code_in(part, "toml"))
    try_it, show_it, check_it = commands_in(part)
    assert "bills-are-due" in done(try_it, copy)
    done(show_it, copy)
    checked = run(check_it, copy)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "Breaks 1 rule: bills-are-due" in checked.stdout  # its name in the contract
