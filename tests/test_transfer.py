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
