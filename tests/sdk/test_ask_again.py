"""Tests of `ask_again`, around every option that takes a wrapper."""

from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options.sdk.ask_again import ask_again
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.settings import Settings
from tests.sdk.fakes import ON_ASYNCIO
from tests.sending import instance, text_of

pytestmark = [pytest.mark.anyio, ON_ASYNCIO]

PLACES = "'Springfield, Illinois', 'Springfield, Massachusetts' or 'Springfield, Missouri'"

AUDITS = dict.fromkeys("ABCDEM", 5)
"""The options whose first line ran in all four rounds, and once more for the bad answer. In the
other options it ran once.
"""


class User:
    """A user whose first answer is not a choice; without `learns`, no answer is."""

    def __init__(self, *, learns: bool = True) -> None:
        self.asked: list[str] = []
        self._learns = learns

    async def __call__(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        self.asked.append(params.message)
        (name,) = params.requested_schema["properties"]
        is_bad = len(self.asked) == 1 or not self._learns
        place = "Springfield, Ohio" if is_bad else "Springfield, Illinois"
        return types.ElicitResult(
            action="accept", content={name: {"place": place}.get(name, "metric")}
        )


@pytest.mark.parametrize("letter", sorted(set(all_options()) - {"I"}))
async def test_a_bad_answer_is_asked_for_again_and_the_call_goes_on(letter: str) -> None:
    ledger = weather.MemoryLedger()
    user = User()
    server = instance(letter, Settings(ledger, wrappers=[ask_again]))
    async with Client(server, mode="2026-07-28", elicitation_callback=user) as client:
        result = await client.call_tool("weather", {"location": "Springfield"})
    assert text_of(result).startswith("Springfield, Illinois")
    assert len(user.asked) == 3
    assert user.asked[1].endswith(f"Input should be {PLACES}\n{user.asked[0]}")
    counts = weather.count(await ledger.effects())
    assert counts["bill"] == 1
    assert counts["audit"] == AUDITS.get(letter, 1)


@pytest.mark.parametrize("letter", ["F", "H"])
async def test_a_user_who_never_learns_is_asked_again_three_times(letter: str) -> None:
    user = User(learns=False)
    server = instance(letter, Settings(weather.MemoryLedger(), wrappers=[ask_again]))
    async with Client(server, mode="2026-07-28", elicitation_callback=user) as client:
        with pytest.raises(MCPError, match="'place' does not fit"):
            await client.call_tool("weather", {"location": "Springfield"})
    assert len(user.asked) == 4
