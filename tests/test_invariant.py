"""What is the same in every option where the client cannot be asked; and a proposal (`--proposal FILE`).

What a client sees of an option is held against the contract in `judge/test_contract`, and its counts
against its guarantees in `judge/test_matrix`; a proposal is held to both by `check`.
"""

from __future__ import annotations

import anyio
import pytest

from mrtr_options.bench.faults import ERAS
from mrtr_options.judge import check
from mrtr_options.judge.findings import story
from mrtr_options.judge.reading import Observation
from mrtr_options.tool.catalogue import Option, all_options
from tests.fixtures import proposal_of

NOT_ASKED = "no-elicitation-"
"""How the schedules begin in which a client cannot be asked; the place is behind."""


@pytest.mark.parametrize("letter", all_options())
def test_a_client_that_cannot_be_asked_is_not_and_has_the_effects_above_the_question(
    letter: str, observations: list[Observation]
) -> None:
    seen = [each for each in observations if each.subject == letter and NOT_ASKED in each.schedule]
    assert {(each.era, each.schedule) for each in seen} == {
        (era, NOT_ASKED + place) for era in ERAS for place in ("tokyo", "springfield")
    }
    unanswered = "0/0" if letter in "GI" else "1/0"
    for each in seen:
        counts = f"{each.most('audit')}/{each.most('bill')}"
        assert (each.questions, counts) == ((), unanswered if "spring" in each.schedule else "1/1")


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
