"""Tests of the transfer: its files do what its page says."""

import re
import sys
import textwrap

import pytest

from tests.commands import REPOSITORY, output

FOLDER = REPOSITORY / "examples" / "transfer"
PAGE = (FOLDER / "README.md").read_text(encoding="utf-8")
TABLE = re.findall(r"^\$ python nine_things.py\n((?:.+\n)*)```", PAGE, re.MULTILINE)[0]


@pytest.mark.evidence("the nine things of a transfer")
def test_the_nine_things_do_and_tell_what_the_page_says() -> None:
    assert output(sys.executable, "nine_things.py", cwd=FOLDER) == TABLE


def test_the_page_shows_how_the_tool_is_served() -> None:
    source = (FOLDER / "transfer_money.py").read_text(encoding="utf-8")
    shown = source[source.index("    @calls.tool(") : source.index("    async def transfer")]
    assert textwrap.dedent(shown).strip() in PAGE


def test_no_thing_transfers_more_than_the_user_wanted() -> None:
    """Check that two transfers have two references or two callers."""
    counts = dict(re.findall(r"^(\S.*?) +(\d)$", TABLE, re.MULTILINE))
    twice = [what for what, transfers in counts.items() if int(transfers) > 1]
    assert twice == [
        "another reference",
        "... and that one with another amount",
        "another caller with the same reference",
    ]


def test_a_payment_that_was_made_and_failed_is_told_as_made() -> None:
    for what in ("the bank pays, and then times out", "the same call in other words"):
        assert f"{what} " in TABLE
        told = TABLE.split(what)[1].split("\n", 3)
        assert told[0].strip() == "1"
        assert "error" not in told[1]
