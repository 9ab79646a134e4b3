"""Old clients of a server that cannot hold a connection open get what the option has for them."""

from functools import partial

import pytest
from mcp import MCPError

from mrtr_options.tool.catalogue import all_options
from tests.evidence import every
from tests.sending import connected, instance, over_http, settings, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ASSUMED = "Tokyo, Japan: 19 °C, clear. (metric assumed: this client cannot be asked)"
REFUSED = "'Springfield' is ambiguous. Call again with one of: Springfield, Illinois;"


@pytest.mark.parametrize(
    "letter", every("old clients without a stream", {each: each for each in all_options()}, "AEI")
)
async def test_where_the_server_cannot_push_an_old_client_gets_what_the_author_gives_it(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = instance(letter, settings())
    stateless = partial(server.streamable_http_app, stateless_http=True)
    monkeypatch.setattr(server, "streamable_http_app", stateless)
    async with over_http(server) as url, connected(url, "legacy") as client:
        if letter == "I":  # the SDK tries to push
            with pytest.raises(MCPError, match="no back-channel"):
                await client.call_tool("weather", {"location": "Tokyo"})
            return
        tokyo = await client.call_tool("weather", {"location": "Tokyo"})
        springfield = await client.call_tool("weather", {"location": "Springfield"})
    assert springfield.is_error
    own = all_options()[letter].guarantees
    if own is not None and own.asks_legacy:
        assert tokyo.is_error
        return
    assert (tokyo.is_error, text_of(tokyo)) == (False, ASSUMED)
    assert REFUSED in text_of(springfield)
