"""Whole calls of an option, and rounds driven by hand for users who do not simply agree.

Knows the bench and the shared server; nothing of any option's machinery.
"""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import Client
from mcp.server import MCPServer, Server

from mrtr_options.demo.call import agree, agreeable
from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.messages import Era
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


@asynccontextmanager
async def connected(server: AnyServer | str, era: Era = "modern") -> AsyncGenerator[Client]:
    """Connect a client with elicitation to a server or a URL, for a bounded time."""
    with anyio.fail_after(SECONDS):
        async with Client(server, mode=MODES[era], elicitation_callback=agree) as client:
            yield client


@asynccontextmanager
async def over_http(*servers: AnyServer) -> AsyncGenerator[Any]:
    """Serve servers from this process; yield the URL of one, or the list of several URLs."""
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(served(server)) for server in servers]
        yield urls if len(urls) > 1 else urls[0]


async def round_of(
    client: Client,
    tool: str,
    arguments: dict[str, Any],
    asked: Response | None = None,
    answers: types.InputResponses | None = None,
) -> Response:
    """Send one round of a call: the first one, or the one after the response that asked."""
    return await client.session.call_tool(
        tool,
        arguments,
        input_responses=answers,
        request_state=getattr(asked, "request_state", None),
        allow_input_required=True,
    )


async def send(
    client: Client,
    location: str,
    asked: Response | None = None,
    answers: types.InputResponses | None = None,
) -> Response:
    """Send the first round of a call, or the round after the response that asked.

    A server that was paused for a moment may answer with a state alone; the client then retries.
    """
    arguments = {"location": location}
    response = await round_of(client, TOOL, arguments, asked, answers)
    while isinstance(response, types.InputRequiredResult) and not response.input_requests:
        response = await round_of(client, TOOL, arguments, response)
    return response


def forms(asked: Response) -> dict[str, types.ElicitRequestFormParams]:
    """Return the questions of a response, by key."""
    assert isinstance(asked, types.InputRequiredResult), f"not a question: {asked}"
    found: dict[str, types.ElicitRequestFormParams] = {}
    for key, request in (asked.input_requests or {}).items():
        assert isinstance(request.params, types.ElicitRequestFormParams)
        found[key] = request.params
    return found


async def good(asked: Response) -> types.InputResponses:
    """Return the agreeable user's answers to all questions of a response."""
    return {key: await agreeable(form) for key, form in forms(asked).items()}


async def answer(
    client: Client, location: str, asked: Response, extra: types.InputResponses | None = None
) -> Response:
    """Send the agreeable user's answers; check that the same questions are not asked again."""
    response = await send(client, location, asked, {**(extra or {}), **await good(asked)})
    if isinstance(response, types.InputRequiredResult):
        assert forms(response) != forms(asked), "the server asks answered questions again"
    return response


def accepted(**content: str) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=dict(content))


def text_of(response: Response) -> str:
    assert isinstance(response, types.CallToolResult), f"not a result: {response}"
    (block,) = response.content
    assert isinstance(block, types.TextContent)
    return block.text


async def counts(run_with: Settings) -> str:
    """Count the effects in the ledger, as "audit/bill"."""
    effects = count(await run_with.ledger.effects())
    return f"{effects['audit']}/{effects['bill']}"
