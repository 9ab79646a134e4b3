"""The same tool in every option: exactly the guaranteed effects, and what the contract allows.

The counts stand written out here, so that an option's own guarantees cannot excuse it. What a client
sees of an option is held against the contract in `judge/test_contract`; here that is done for a
proposal (`--proposal FILE`), by `check`, so both say the same of it.
"""

from __future__ import annotations

from typing import NamedTuple

import anyio
import pytest

from mrtr_options.bench.faults import ERAS, Era
from mrtr_options.judge import check
from mrtr_options.judge.findings import story
from mrtr_options.tool.catalogue import Option, all_options, option_named
from tests.fixtures import proposal_of
from tests.rounds import call


class Row(NamedTuple):
    """The part of an option's guarantees that a clean call shows."""

    modern_tokyo: str
    modern_springfield: str
    legacy_tokyo: str
    legacy_springfield: str
    asks_legacy: bool


TABLE = {  # audit/bill: modern Tokyo, modern Springfield, legacy Tokyo, legacy Springfield
    "A": Row("2/1", "3/1", "2/1", "3/1", asks_legacy=True),
    "B": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "C": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "D": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
    "E": Row("2/1", "3/1", "1/1", "1/0", asks_legacy=False),
    "F": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "G": Row("1/1", "1/1", "1/1", "0/0", asks_legacy=False),
    "H": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "I": Row("1/1", "1/1", "1/1", "1/1", asks_legacy=True),
    "J": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "K": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "L": Row("1/1", "1/1", "1/1", "1/0", asks_legacy=False),
    "M": Row("2/1", "3/1", "1/1", "1/1", asks_legacy=True),
}
UNASKED = {letter: {"Tokyo": "1/1", "Springfield": "1/0"} for letter in TABLE}
UNASKED["G"]["Springfield"] = UNASKED["I"]["Springfield"] = "0/0"

LOCATIONS = ("Tokyo", "Springfield")

era_and_location = pytest.mark.parametrize(
    ("era", "location"), [(era, location) for era in ERAS for location in LOCATIONS]
)
every_letter = pytest.mark.parametrize("letter", TABLE)


def row_of(option: Option) -> Row | None:
    """The row that an option claims."""
    own = option.guarantees
    return own and Row(*(getattr(own, name) for name in Row._fields))


def test_every_option_that_ships_has_a_row() -> None:
    assert list(TABLE) == list(all_options())


@every_letter
def test_a_file_guarantees_what_the_table_says(letter: str) -> None:
    assert row_of(option_named(letter)) == TABLE[letter]


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
