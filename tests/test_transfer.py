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


def test_no_thing_transfers_more_than_the_user_wanted() -> None:
    """Check that two transfers have two references or two callers."""
    counts = dict(re.findall(r"^(\S.*?) +(\d)$", TABLE, re.MULTILINE))
    twice = [what for what, transfers in counts.items() if int(transfers) > 1]
    assert twice == [
        "another reference",
        "... and that one with another amount",
        "another caller with the same reference",
    ]


def test_the_page_shows_the_guard_of_the_tool() -> None:
    source = (FOLDER / "transfer_money.py").read_text(encoding="utf-8")
    guard = source[source.index("guard = sdk.single_use(") : source.index("        tool = sdk.")]
    assert textwrap.dedent(f"        {guard}").strip() in PAGE
