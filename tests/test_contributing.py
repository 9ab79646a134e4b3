"""The contribution notes, followed to the letter on a copy of the project."""

from __future__ import annotations

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
    "python -m mrtr_options check M": "tests/judge/test_check.py does",
    "make test": "it is what runs this test",
    "python -m mrtr_options.show.docs --explore M": "it is run with one fault, and on README alone",
    "make notebooks": "tests/show/test_notebooks.py executes them",
}
"""Commands that are not run here, and why."""


def section(title: str) -> str:
    """A part of the notes."""
    return re.split(r"^## ", NOTES.partition(f"## {title}\n")[2], flags=re.MULTILINE)[0]


def code_in(text: str, language: str = "python") -> str:
    """The one piece of code in a part."""
    (code,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return code


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project in which the steps are taken."""
    return copy_of_the_project(tmp_path_factory.mktemp("contributing"))


@pytest.fixture(scope="module")
def option(copy: Path) -> tuple[Path, dict[str, str]]:
    """The copy, once an option was added as the notes say; what each command printed."""
    printed: dict[str, str] = {}
    for command in commands_in(section("An option")):
        if command not in ELSEWHERE:
            ended = run(command, copy, anew=True)
            assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
            printed[command] = ended.stdout
    return copy, printed


def test_an_option_is_one_new_file(option: tuple[Path, dict[str, str]]) -> None:
    def files(folder: Path) -> dict[str, bytes]:
        paths = [
            *folder.glob("*.*"),
            *folder.glob("mrtr_options/**/*.py"),
            *folder.glob("tests/**/*.py"),
        ]
        return {str(path.relative_to(folder)): path.read_bytes() for path in paths if path.is_file()}

    before, after = files(REPOSITORY), files(option[0])
    assert {name for name in after if before.get(name) != after[name]} == {
        "mrtr_options/option_m_yours.py"
    }


def test_a_new_option_is_in_the_tour(option: tuple[Path, dict[str, str]]) -> None:
    ended = run("python -m mrtr_options --json", option[0], anew=True)
    rows = json.loads(ended.stdout)
    assert "M" in {row["option"] for row in rows}, ended.stderr


def test_a_new_option_is_in_the_diff(option: tuple[Path, dict[str, str]]) -> None:
    assert "M yours" in option[1]["python -m mrtr_options diff --stat"]


def test_a_new_option_is_held_to_the_contract(option: tuple[Path, dict[str, str]]) -> None:
    (said,) = (out for command, out in option[1].items() if "test_contract.py" in command)
    assert re.search(r"^\. ", said, re.MULTILINE)


def test_a_new_option_is_in_the_tables_of_the_readme(option: tuple[Path, dict[str, str]]) -> None:
    (command,) = (each for each in commands_in(section("An option")) if "--explore" in each)
    kept = {name: option[0] / name for name in ("README.md", "docs/explored.json")}
    before = {name: file.read_text(encoding="utf-8") for name, file in kept.items()}
    ended = run(f"{command} --faults 1 README.md", option[0], anew=True)
    after = {name: file.read_text(encoding="utf-8") for name, file in kept.items()}
    for name, file in kept.items():
        file.write_text(before[name], encoding="utf-8")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "13 options are 7 behaviours" in after["README.md"]
    assert len(re.findall(r"^\| \*\*[^|]*\bM\b", after["README.md"], re.MULTILINE)) == 1
    assert "| [**M** yours](mrtr_options/option_m_yours.py) |" in after["README.md"]
    rows = {name: json.loads(text["docs/explored.json"]) for name, text in (("b", before), ("a", after))}
    assert [row for row in rows["a"] if row["subject"] != "M"] == rows["b"]


@pytest.mark.parametrize(
    ("heading", "table", "before", "shown"),
    [
        ("A fault", "faults.py", '    Kind("lost",', "late3: half a minute passes before the request"),
        ("A schedule", "schedules.py", "        # other versions of the code\n", "two-duplicates"),
    ],
)
def test_a_new_row_is_played(heading: str, table: str, before: str, shown: str, copy: Path) -> None:
    file = copy / "mrtr_options" / "bench" / table
    text = file.read_text(encoding="utf-8")
    assert text.count(before) == 1
    part = section(heading)
    margin = before[: len(before) - len(before.lstrip())]
    entry = indent(code_in(part).rstrip(), margin) + ",\n"
    file.write_text(text.replace(before, entry + before), encoding="utf-8")
    try:
        (command,) = commands_in(part)
        ended = run(command, copy, anew=True)
    finally:
        file.write_text(text, encoding="utf-8")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert shown in ended.stdout


def test_a_new_mutant_is_caught_by_the_guarantee_that_it_names(copy: Path) -> None:
    part = section("A mutant")
    table = code_in(part, "toml")
    mutants = copy / "tests" / "mutants" / "mutants.toml"
    before = mutants.read_text(encoding="utf-8")
    mutants.write_text(f"{before}\n{table}", encoding="utf-8")
    try:
        tried, shown, checked = (run(command, copy, anew=True) for command in commands_in(part))
    finally:
        mutants.write_text(before, encoding="utf-8")
    (guarantee,) = re.findall(r'breaks = "(.*)"', table)
    assert (tried.returncode, shown.returncode) == (0, 0), tried.stderr + shown.stderr
    assert guarantee in tried.stdout
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "breaks 1 guarantee: bills-are-due" in checked.stdout  # what the contract calls it


def test_every_exception_is_a_command_of_the_notes() -> None:
    assert set(ELSEWHERE) <= set(commands_in(NOTES))
