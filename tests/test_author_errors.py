"""What is the same for every option: the tool's schema, and what an exception of its code ends in."""

from typing import Any

import mcp_types as types
import pytest
from mcp import Client, MCPError

from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import all_options
from mrtr_options.tool.settings import Settings
from tests.rounds import instance

pytestmark = pytest.mark.anyio

SECRET = "a detail of the destination"


class Broken:
    """A ledger that raises what no one expects."""

    async def record(self, effect: weather.Effect) -> None:
        raise RuntimeError(SECRET)

    async def effects(self) -> tuple[weather.Effect, ...]:
        return ()


async def metric(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    assert isinstance(params, types.ElicitRequestFormParams)
    assert params.requested_schema.keys() <= {"type", "properties", "required", "$schema"}
    return types.ElicitResult(action="accept", content={"units": "metric"})


@pytest.mark.parametrize("letter", sorted(all_options()))
async def test_an_exception_is_an_error_and_no_name_of_a_class_is_in_a_schema(letter: str) -> None:
    server = instance(letter, Settings(Broken()))
    async with Client(server, mode="2026-07-28", elicitation_callback=metric) as client:
        (tool,) = (await client.list_tools()).tools
        assert tool.input_schema.keys().isdisjoint(("title", "description"))
        assert "title" not in tool.input_schema["properties"]["location"]
        with pytest.raises(MCPError) as raised:
            await client.call_tool("weather", {"location": "Tokyo"})
        assert raised.value.code == types.INTERNAL_ERROR
        assert SECRET not in str(raised.value)
