"""The patches of the official suite name what the scenario files beside them have; npm is not needed."""

import re

from scoreboard.conformance.score.table import CLIENT_SCENARIO, SCENARIOS

FILES = (SCENARIOS, CLIENT_SCENARIO)
SOURCE = "".join(file.read_text(encoding="utf-8") for file in FILES)
PATCHES = [file.read_text(encoding="utf-8") for file in sorted(SCENARIOS.parent.glob("*.patch"))]


def added(name: str) -> str:
    """The lines that the patches add to the files whose path ends so."""
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
    # The list that they are appended to ends without a comma, so its last line is there again.
    assert set(classes) <= set(re.findall(r"new (\w+)\(\)", added("src/scenarios/index.ts")))
    rows = re.findall(r"- scenario: (\S+)\n.*\n +reason: (.+)", added("requirements/2026-07-28.yaml"))
    assert rows == [(name, "added-after-release") for name in names]


def test_the_everything_server_gets_each_counting_tool_that_the_scenarios_call() -> None:
    tools = re.findall(r"^const (\w+) = 'test_input_required_result_(\w+)'", SOURCE, re.MULTILINE)
    old = {"request_state", "tampered_state", "elicitation"}
    new = {tool for _, tool in tools} - old
    assert set(re.findall(r"\$\{PREFIX\}(\w+)", added("counting-tools.ts"))) == new
