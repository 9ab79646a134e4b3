"""What is the same in every option where nobody can be asked; and a proposal (`--proposal FILE`).

What a client sees of an option is held against the contract in `judge/test_contract`, and its counts
against its guarantees in `judge/test_matrix`; a proposal is held to both by `check`.
"""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.bench.faults import ERAS, Era
from mrtr_options.judge import check
from mrtr_options.judge.findings import story
from mrtr_options.tool.catalogue import Option, all_options, option_named
from tests.fixtures import proposal_of
from tests.rounds import call

UNASKED = {letter: {"Tokyo": "1/1", "Springfield": "1/0"} for letter in all_options()}
UNASKED["G"]["Springfield"] = UNASKED["I"]["Springfield"] = "0/0"

LOCATIONS = ("Tokyo", "Springfield")

era_and_location = pytest.mark.parametrize(
    ("era", "location"), [(era, location) for era in ERAS for location in LOCATIONS]
)
every_letter = pytest.mark.parametrize("letter", UNASKED)


@pytest.mark.anyio
@every_letter
@era_and_location
async def test_a_client_that_cannot_be_asked_has_the_guaranteed_effects(
    letter: str, era: Era, location: str
) -> None:
    seen = await call(option_named(letter), era, location, answer=None)
    assert (seen.effects, seen.questions) == (UNASKED[letter][location], [])


def test_a_proposal_keeps_the_contract(request: pytest.FixtureRequest) -> None:
    proposal: Option | None = proposal_of(request.config)
    if proposal is None:
        return  # the options' own runs are above
    try:
        report = anyio.run(check.check_file, proposal.path)
    except check.CannotJudge as error:
        pytest.fail(f"{error.reason}\n{error.details}", pytrace=False)
    broken = [
        f"{each.name} under {seen.schedule}: {seen.breaks[each.name]}" for each, seen in report.broken
    ]
    stories = ["\n".join([each.rule, *story(each)]) for each in report.findings]
    assert report.holds, "\n\n".join([*stories, *broken])
