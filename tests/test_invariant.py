"""A proposal (`--proposal FILE`), held to the contract and its own guarantees by `check`.

The options are held to it in `judge/test_contract`, and to their guarantees in `judge/test_matrix`.
"""

import anyio
import pytest

from mrtr_options.review.judge import check
from mrtr_options.review.judge.findings import story
from tests.fixtures import proposal_of


def test_a_proposal_keeps_the_contract(request: pytest.FixtureRequest) -> None:
    proposal = proposal_of(request.config)
    assert proposal is not None, "name one: --proposal=my_option.py"
    try:
        report = anyio.run(check.check_file, proposal.path)
    except check.CannotJudge as error:
        pytest.fail(f"{error.reason}\n{error.details}", pytrace=False)
    broken = [
        f"{each.name} under {seen.schedule}: {seen.breaks[each.name]}"
        for each, seen in report.broken
    ]
    stories = ["\n".join([each.rule, *story(each)]) for each in report.findings]
    assert report.holds, "\n\n".join([*stories, *broken])
