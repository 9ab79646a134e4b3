"""Any tool in the guard: each effect happens at most once, and what is told is true."""

import pytest
from hypothesis import given, settings

from tests.evidence import every
from tests.sdk.any_tool import play
from tests.sdk.drawn_stories import stories

EXAMPLES = {"400": 400, "4000": 4_000}


@pytest.mark.parametrize("examples", every("any tool", EXAMPLES, ("400",)))
def test_any_call_of_any_tool_is_done_once_and_told_truly(examples: int) -> None:
    settings(max_examples=examples)(given(stories)(play))()
