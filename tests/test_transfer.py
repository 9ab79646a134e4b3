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


@pytest.mark.parametrize(
    ("row", "scene"),
    [
        ("the bank pays, and then times out", "the bank pays, and then times out"),
        ("the model calls again in other words", "the same call in other words"),
        ("the receipt is declined", "the receipt is declined"),
    ],
)
def test_using_quotes_what_the_user_is_told(row: str, scene: str) -> None:
    using = (REPOSITORY / "docs" / "USING.md").read_text(encoding="utf-8")
    (quote,) = re.findall(rf"^\| {row} \| `(.*?)`", using, re.MULTILINE)
    (told,) = re.findall(rf"^{scene} +1\n((?: .*\n)+)", TABLE, re.MULTILINE)
    for part in quote.split("[...]"):
        assert part.strip() in " ".join(told.split())
