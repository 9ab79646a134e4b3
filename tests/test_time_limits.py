"""Tests of REFERENCE: the time limits of the layers are those in the code."""

import inspect
import re

import pytest

from mrtr_options import sdk
from tests.commands import REPOSITORY

PAGE = (REPOSITORY / "docs" / "results" / "REFERENCE.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("## Which time limit ends first")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| .* \| .* \| ([\d,]+) s \| `(.*)` \|$", TABLE, re.MULTILINE)


@pytest.mark.parametrize(("seconds", "setting"), ROWS)
def test_a_time_limit_of_the_page_is_that_of_the_code(seconds: str, setting: str) -> None:
    found = re.fullmatch(r"(\w+)\((\w+)=\)", setting)
    assert found is not None, setting
    if found[1] in ("DurableStore", "TaskStore"):
        pytest.importorskip("dbos")
    default = inspect.signature(getattr(sdk, found[1])).parameters[found[2]].default
    assert default == float(seconds.replace(",", ""))


def test_the_page_has_a_row_for_each_layer() -> None:
    assert len(ROWS) == 12
