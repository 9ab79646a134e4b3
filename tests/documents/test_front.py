"""Tests of README: its tables say what runs show, and its code is what an example has."""

import re
import shlex
from functools import cache
from itertools import product

import anyio
import pytest

from documents import ROOT
from documents.front import Row, options_table
from mrtr_options.__main__ import main
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import IN_MEMORY
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.check.compared import lost_result
from mrtr_options.tool.author_code import author_code, unified
from mrtr_options.tool.catalogue import all_options, option_named
from tests.commands import printed

README = (ROOT / "README.md").read_text(encoding="utf-8")


@cache
def rows() -> dict[str, Row]:
    """Return the rows of README's table, by their subjects."""
    return {row.subject: row for row in options_table()}


@pytest.mark.evidence("cells and tables of the documents")
@pytest.mark.parametrize(("subject", "policy"), [*product([*all_options(), "default"], POLICIES)])
def test_a_lost_result_does_what_the_table_says(subject: str, policy: str) -> None:
    lost = anyio.run(lost_result, subject_named(subject), calling(), policy, IN_MEMORY)
    assert rows()[subject].lost[policy] == lost


def test_the_code_of_the_readme_is_in_the_example() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    example = (ROOT / "examples" / "transfer" / "transfer_money.py").read_text(encoding="utf-8")
    there = re.sub(r"\s", "", example)
    assert [
        line for line in code.splitlines() if re.sub(r"\s|\)$|\.\.\.\).*", "", line) not in there
    ] == []


def test_the_lines_of_a_tension_are_those_that_differ() -> None:
    page = (ROOT / "docs" / "ARGUMENT.md").read_text(encoding="utf-8")
    shown = re.findall(
        r"`python -m mrtr_options diff (\w) (\w)`:\n\n```diff\n(.*?)```", page, re.DOTALL
    )
    assert len(shown) == 6
    for left, right, lines in shown:
        here, there = (author_code(option_named(each).source) for each in (left, right))
        assert {*lines.splitlines()} <= {*unified(here, there, ("", ""))}


def test_a_count_of_the_argument_is_printed_by_a_command_beside_it() -> None:
    page = (ROOT / "docs" / "ARGUMENT.md").read_text(encoding="utf-8")
    for part in re.split(r"\n- |\n\n|\n\| ", page):
        commands = re.findall(r"`python -m mrtr_options (play [^`]*)`", " ".join(part.split()))
        counts = {*re.findall(r"\b\d/\d\b", part)}
        if commands and counts:
            said = " ".join(printed(main, *shlex.split(command)) for command in commands)
            assert counts <= {*re.findall(r"audit/bill (\d/\d)", said)}, part


WORDS = 700
WORDS_OF_A_PAGE = 2_000


def test_the_readme_is_read_once_and_begins_with_two_commands() -> None:
    lines = README.splitlines()
    words = " ".join(line for line in lines if not line.startswith("|")).split()
    assert len(words) <= WORDS
    assert {"$ make demo", "$ make test"} <= {line.split("  ")[0] for line in lines[:25]}
    assert not re.search("[¹ⁿᵏ²ᵀ]", README)


def test_no_page_to_read_is_longer_than_a_sitting_or_has_a_mark() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        assert len(text.split()) <= WORDS_OF_A_PAGE, page.name
        assert not re.search("[¹ⁿᵏ²ᵀ]", text), page.name
