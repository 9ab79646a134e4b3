"""Tests of the suite's score: its table of sentences and mutants, its stored runs, and its page.

Also tests that the patches fit the scenario files beside them. No test needs npm; the suite is run
by `make suite-score`.
"""

import re

import pytest

from scoreboard.conformance.report import SUITE
from scoreboard.conformance.score import table
from scoreboard.conformance.score.table import PROGRAMS, SCENARIOS, read, requirements


def test_every_sentence_has_a_mutant_a_reason_or_another_that_says_the_same() -> None:
    ids = [row.id for row in requirements()]
    assert len(ids) == len(set(ids))
    for row in requirements():
        given = [each for each in (row.mutant, row.why, row.repeats) if each]
        assert len(given) == 1, row.id
        assert bool(row.harm) == bool(row.mutant), row.id
        assert not row.repeats or row.repeats in ids, row.id


@pytest.mark.parametrize("side", PROGRAMS)
def test_every_mutant_breaks_one_sentence_of_the_table(side: table.Side) -> None:
    named = [name for row in table.broken(side) for name in (row.mutant, row.other) if name]
    assert sorted(named) == sorted(PROGRAMS[side].keys() - {"correct"})


@pytest.mark.parametrize("side", PROGRAMS)
def test_the_kept_runs_are_of_this_code(side: table.Side) -> None:
    kept = {name: outcome.code for name, outcome in read().of(side).items()}
    assert kept == {name: table.code_of(side, name) for name in PROGRAMS[side]}


def test_each_check_of_the_scenarios_has_a_fixture_and_a_sentence_of_the_table() -> None:
    checks = {*table.proposed_checks()}
    correct = read().proposed["correct"].checks | read().proposed_client["correct"].checks
    kept = {each for each, status in correct.items() if status != "INFO"}
    without_sentences = {"wire-schema-valid", "sep-2322-state-only-complete"}
    assert checks == kept - without_sentences
    assert checks == set(re.findall(r"- check: (\S+)\n    text: \S+", table.traceability()))


def test_the_correct_server_and_client_pass_the_scenarios() -> None:
    assert set(read().proposed["correct"].checks.values()) <= {"SUCCESS", "INFO"}
    assert set(read().proposed_client["correct"].checks.values()) == {"SUCCESS"}


def test_each_row_of_the_scenarios_names_a_program_that_its_check_finds() -> None:
    for check, (fixture, _) in table.proposed_checks().items():
        side = "proposed_client" if fixture in PROGRAMS["client"] else "proposed"
        assert check in read().found_by(side, fixture), check


def test_the_scenarios_are_for_the_version_of_the_suite_that_is_run() -> None:
    assert f"VERSION = '{SUITE}'" in SCENARIOS.with_name("published.mjs").read_text(
        encoding="utf-8"
    )


FILES = (SCENARIOS, table.CLIENT_SCENARIO)
SOURCE = "".join(file.read_text(encoding="utf-8") for file in FILES)
PATCHES = [file.read_text(encoding="utf-8") for file in sorted(SCENARIOS.parent.glob("*.patch"))]


def added(name: str) -> str:
    """Return the lines that the patches add to the files whose paths end in this name."""
    sections = re.split(r"^diff --git ", "".join(PATCHES), flags=re.MULTILINE)
    found = [each for each in sections if each.partition("\n")[0].endswith(name)]
    return "\n".join(re.findall(r"^\+(?!\+\+ )(.*)", "".join(found), re.MULTILINE))


def test_the_patches_have_no_copy_of_what_is_beside_them() -> None:
    assert len(PATCHES) == 3
    assert not any(added(f"/{file.name}") for file in FILES)
    assert "- check:" not in added("/sep-2322.yaml")


def test_the_patch_registers_every_scenario_and_lists_it_as_not_scored() -> None:
    classes = re.findall(r"export class (\w+)", SOURCE)
    names = re.findall(r"^  name = '(.+)';", SOURCE, re.MULTILINE)
    assert len(classes) == len(names) == 5
    # The patch also adds the old last line of the list again, now with a comma.
    assert set(classes) <= set(re.findall(r"new (\w+)\(\)", added("src/scenarios/index.ts")))
    rows = re.findall(
        r"- scenario: (\S+)\n.*\n +reason: (.+)", added("requirements/2026-07-28.yaml")
    )
    assert rows == [(name, "added-after-release") for name in names]


def test_the_everything_server_gets_each_counting_tool_that_the_scenarios_call() -> None:
    tools = re.findall(r"^const (\w+) = 'test_input_required_result_(\w+)'", SOURCE, re.MULTILINE)
    old = {"request_state", "tampered_state", "elicitation"}
    new = {tool for _, tool in tools} - old
    assert set(re.findall(r"\$\{PREFIX\}(\w+)", added("counting-tools.ts"))) == new
