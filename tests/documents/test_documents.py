"""Tests of the documents: their tables match the runs."""

import json
import re
import shlex
from collections import defaultdict
from pathlib import Path

import pytest

from documents import ROOT
from documents.__main__ import matrix
from documents.findings import COUNTEREXAMPLES
from documents.parts import OF_KEPT, OF_RUNS, PARTS, renew_kept, renew_text
from documents.tables import PICTURES, documents
from mrtr_options.__main__ import main
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.judge.anomalies import ANOMALIES
from tests.commands import printed

RENEW = "stale: run python -m documents"


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


DOCUMENTS = {str(path.relative_to(ROOT)): path for path in documents()}
OF_DATA = {
    name: path
    for name, path in DOCUMENTS.items()
    if not {*OF_RUNS} & {*re.findall("begin: (.*?) -->", text_of(path))}
}
"""The documents without a table of runs."""


@pytest.mark.evidence("cells and tables of the documents", also=True)
@pytest.mark.parametrize("path", OF_DATA.values(), ids=OF_DATA)
def test_the_generated_parts_are_what_is_kept(path: Path) -> None:
    assert renew_kept(renew_text(text_of(path), list)) == text_of(path), RENEW


@pytest.mark.evidence("cells and tables of the documents")
def test_the_tables_of_runs_are_what_the_runs_say() -> None:
    for name in DOCUMENTS.keys() - OF_DATA.keys():
        text = text_of(DOCUMENTS[name])
        assert renew_text(text, matrix) == text, f"{name} is {RENEW}"


def test_every_generated_part_has_one_place() -> None:
    places = [
        name for path in documents() for name in re.findall("begin: (.*?) -->", text_of(path))
    ]
    own = {*PARTS, *OF_RUNS}
    assert sorted(own) == sorted(name for name in places if name in own)
    assert {name for name in places if not name.startswith("run: ")} == own | {*OF_KEPT}


@pytest.mark.parametrize("path", PICTURES, ids=lambda path: path.name)
def test_a_picture_is_what_a_run_draws(path: Path) -> None:
    picture = PICTURES[path].drawing
    assert picture == path.read_text(encoding="utf-8"), RENEW
    assert "prefers-color-scheme: dark" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.evidence("witnesses of the findings", also=True)
@pytest.mark.parametrize("name", COUNTEREXAMPLES)
def test_a_finding_is_a_page_with_a_command_that_ends_as_the_page_says(name: str) -> None:
    page = text_of(ROOT / "docs" / "results" / "findings" / f"{name}.md")
    (command, said), *more = re.findall(
        r"^\$ python -m mrtr_options (.*)\n(.*)$", page, re.MULTILINE
    )
    assert more == []
    assert printed(main, *shlex.split(command)).splitlines()[-1].strip() == said


@pytest.mark.evidence("cells and tables of the documents")
def test_the_proposal_says_what_is_found_of_each_subject() -> None:
    page = text_of(ROOT / "docs" / "CALL_KEY.md")
    (command,) = re.findall(r"`python -m mrtr_options (explore .*?)`", page)
    found = defaultdict[str, set[str]](set)
    for row in json.loads(printed(main, *command.split(), "--json")):
        found[row["subject"]] |= {
            f"{row['histories']:,}",
            *row["witnesses"],
        }
    said = "|".join(each.name for each in ANOMALIES)
    for name, left, runs in re.findall(
        r"^\| [^|]*\(`(\S+\+key)`\) \|.*?\|(.*)\| (.*?) \|$", page, re.MULTILINE
    ):
        assert found.pop(subject_named(name).name) == {*re.findall(said, left), *runs.split(", ")}
    assert not found
