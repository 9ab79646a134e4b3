"""Whole calls of an option, and rounds driven by hand for calls that no agreeable user makes.

Knows the bench and the shared server; nothing of any option's machinery.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from mcp.server import MCPServer, Server

from mrtr_options.review.bench.client import MODES, agreeable
from mrtr_options.review.bench.history import Era
from mrtr_options.sdk.testing import served
from mrtr_options.tool.catalogue import load, option_named
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import MemoryLedger, count
from tests.bounds import SECONDS

AnyServer = Server[Any] | MCPServer[Any]
Response = types.CallToolResult | types.InputRequiredResult


def settings() -> Settings:
    return Settings(MemoryLedger())


def instance(letter: str, run_with: Settings) -> AnyServer:
    return load(option_named(letter).path, run_with)


async def user(
    context: ClientRequestContext, params: types.ElicitRequestParams
) -> types.ElicitResult:
    """An agreeable user of a client that is asked by push."""
    assert isinstance(params, types.ElicitRequestFormParams)
    return await agreeable(params)


@asynccontextmanager
async def connected(server: AnyServer | str, era: Era = "modern") -> AsyncGenerator[Client]:
    """A client with elicitation of a server, or of a URL, for a bounded time."""
    with anyio.fail_after(SECONDS):
        async with Client(server, mode=MODES[era], elicitation_callback=user) as client:
            yield client


@asynccontextmanager
async def over_http(*servers: AnyServer) -> AsyncGenerator[Any]:
    """The URL of a server that this process serves, or the list of the URLs of several."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(server)) for server in servers]
        yield urls if len(urls) > 1 else urls[0]


async def send(
    client: Client,
    location: str,
    asked: Response | None = None,
    answers: types.InputResponses | None = None,
) -> Response:
    """One round: the first of a call, or the one after the response that asked.

    A server that was paused for a moment may answer with a state alone; the client then retries.
    """
    response = await client.session.call_tool(
        TOOL,
        {"location": location},
        input_responses=answers,
        request_state=asked.request_state if isinstance(asked, types.InputRequiredResult) else None,
        allow_input_required=True,
    )
    if isinstance(response, types.InputRequiredResult) and not response.input_requests:
        return await send(client, location, response)
    return response


def forms(asked: Response) -> dict[str, types.ElicitRequestFormParams]:
    """The questions of a response, by key."""
    assert isinstance(asked, types.InputRequiredResult), f"asks nothing: {asked}"
    found: dict[str, types.ElicitRequestFormParams] = {}
    for key, request in (asked.input_requests or {}).items():
        assert isinstance(request.params, types.ElicitRequestFormParams)
        found[key] = request.params
    return found


async def good(asked: Response) -> types.InputResponses:
    """The agreeable user's answers to everything a response asks."""
    return {key: await agreeable(form) for key, form in forms(asked).items()}


async def answer(
    client: Client, location: str, asked: Response, extra: types.InputResponses | None = None
) -> Response:
    """The round with the agreeable user's answers; it must not ask the same thing again."""
    response = await send(client, location, asked, {**(extra or {}), **await good(asked)})
    if isinstance(response, types.InputRequiredResult):
        assert forms(response) != forms(asked), "asks again what was answered"
    return response


def accepted(**content: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=dict(content))


def text_of(response: Response) -> str:
    assert isinstance(response, types.CallToolResult), f"no result: {response}"
    (block,) = response.content
    assert isinstance(block, types.TextContent)
    return block.text


async def counts(run_with: Settings) -> str:
    """What the ledger has by now, as "audit/bill"."""
    effects = count(await run_with.ledger.effects())
    return f"{effects['audit']}/{effects['bill']}"
