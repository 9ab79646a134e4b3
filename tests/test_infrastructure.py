"""Old clients of a server that cannot hold a connection open: every option does what E does."""

from functools import partial

import pytest

from mrtr_options.tool.catalogue import all_options
from tests.sending import connected, instance, over_http, settings, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ASSUMED = "Tokyo, Japan: 19 °C, clear. (metric assumed: this client cannot be asked)"
REFUSED = "'Springfield' is ambiguous. Call again with one of: Springfield, Illinois;"


@pytest.mark.parametrize("letter", all_options())
async def test_an_old_client_gets_what_e_gives_it_where_the_server_cannot_push(
    letter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = instance(letter, settings())
    stateless = partial(server.streamable_http_app, stateless_http=True)
    monkeypatch.setattr(server, "streamable_http_app", stateless)
    async with over_http(server) as url, connected(url, "legacy") as client:
        tokyo = await client.call_tool("weather", {"location": "Tokyo"})
        springfield = await client.call_tool("weather", {"location": "Springfield"})
    assert (tokyo.is_error, text_of(tokyo)) == (False, ASSUMED)
    assert springfield.is_error
    assert REFUSED in text_of(springfield)
