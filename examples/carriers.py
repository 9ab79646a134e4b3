"""Prompts and resources ask, too: the same two moves on `prompts/get` and `resources/read`.

A modern server may answer three requests with a question: `tools/call`, `prompts/get` and
`resources/read`. (Listing never asks.) The answers and the state travel in the same two fields, so
what works for a tool works for the other two, and `keyed_replay` (option J) is one wrapper for all
of them.

Three things are different from a tool:

1. There is no `isError` result. Where the user says no, or cannot be asked, there is no prompt and
   no content, and the request ends as an error that says why.
2. A resource is read by its address, so the address is all that the state is bound to. Whatever
   else the content depends on has to be asked, or be in the address.
3. Clients read resources ahead of time and again. An effect belongs there even less than above a
   question; what is counted here (a read) has a key.

`RequestStateBoundary` covers all three requests and binds each state to its method: the state of a
prompt is no good for a resource. The main below tries it.

Knows the `mcp` SDK, `weather` for something to ask about, and the stand-in of option J. Run it:
`python -m examples.carriers`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext

from examples.expect import expect, start
from examples.printed_rounds import Request, accept, play
from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.sdk.server import protect
from mrtr_options.sdk.settings import Settings
from mrtr_options.tool import weather

PROMPT = "packing"
TEMPLATE = "weather://{place}"

Reads = list[str]
"""The world outside: the places that were read."""


async def get_packing(
    ctx: ReplayContext[Reads], params: types.GetPromptRequestParams
) -> types.GetPromptResult:
    """Get the prompt `packing(location)`; ask which place is meant, if there are several.

    Raises:
        MCPError: -32602, for another prompt, a location that does not fit, or no answer.
    """
    if params.name != PROMPT:
        raise invalid(f"Unknown prompt: {params.name!r}.")
    location = (params.arguments or {}).get("location", "")
    try:
        place = weather.only_place(location)
        if place is None:
            place = (await ctx.elicit(weather.which_place(location, unasked="error"))).place
    except (Declined, Cancelled, CannotAsk, weather.UnknownPlace) as outcome:
        raise invalid(why(outcome)) from None
    sky = weather.REPORTS[place].sky
    return types.GetPromptResult(
        messages=[
            types.PromptMessage(
                role="user",
                content=types.TextContent(text=f"What do I pack for {place}? Today's sky: {sky}."),
            )
        ]
    )


async def read_weather(
    ctx: ReplayContext[Reads], params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    """Read the resource template `weather://{place}`; ask for the units, and count the read.

    Raises:
        MCPError: -32602, for another address or no answer.
    """
    place = unquote(params.uri.removeprefix("weather://"))
    if place not in weather.REPORTS:
        raise invalid(f"Unknown resource: {params.uri!r}.")

    async def count(key: str) -> None:
        ctx.lifespan_context.append(place)

    ctx.on_commit(count, key="read")
    try:
        units = await ctx.elicit(weather.which_units(place, unasked="metric"))
    except (Declined, Cancelled) as outcome:
        raise invalid(why(outcome)) from None
    report = weather.report(place, units)
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=params.uri, text=report)]
    )


def why(outcome: Declined | Cancelled | CannotAsk | weather.UnknownPlace) -> str:
    """Return the reason that there is no result."""
    match outcome:
        case Declined():
            return weather.declined(outcome.key)
        case Cancelled():
            return weather.cancelled(outcome.key)
        case _:
            return str(outcome)


def invalid(message: str) -> MCPError:
    """Return the error -32602 of a request that has no result."""
    return MCPError(types.INVALID_PARAMS, message)


# --- the server ---------------------------------------------------------------------------------


def build_server(reads: Reads) -> Server[Reads]:
    """Build one instance of the server.

    Args:
        reads: The world outside.
    """

    @asynccontextmanager
    async def lifespan(_: Server[Reads]) -> AsyncGenerator[Reads]:
        yield reads

    server = Server(
        "carriers",
        version="1",
        on_list_prompts=list_prompts,
        on_get_prompt=keyed_replay(get_packing),
        on_list_resource_templates=list_templates,
        on_read_resource=keyed_replay(read_weather),
        lifespan=lifespan,
    )
    # The key is of this process only. A fleet shares its keys: see `multiround`.
    protect(server, Settings())
    return server


async def list_prompts(
    ctx: ServerRequestContext[Reads, Any], params: types.PaginatedRequestParams | None
) -> types.ListPromptsResult:
    """List the server's one prompt."""
    location = types.PromptArgument(name="location", required=True)
    return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT, arguments=[location])])


async def list_templates(
    ctx: ServerRequestContext[Reads, Any], params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    """List the server's one resource template."""
    template = types.ResourceTemplate(name="weather", uri_template=TEMPLATE, mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[template])


# --- the other end ------------------------------------------------------------------------------

ASKS_PLACE = "question place: Which Springfield?"
ASKS_UNITS = "question units: Which units for Tokyo, Japan?"
REFUSED = "error -32602: Invalid or expired requestState"


def packing(location: str) -> Request:
    """Return a request for the prompt."""
    return Request("prompts/get", PROMPT, {"location": location})


def weather_in(place: str) -> Request:
    """Return a request for the resource."""
    return Request("resources/read", TEMPLATE.format(place=quote(place)))


async def demonstrate() -> None:
    """Get the prompt, read the resource, and use the state of one for the other.

    Raises:
        Surprise: Something else happened.
    """
    reads: Reads = []
    server = build_server(reads)
    springfield = packing("Springfield")
    tokyo = weather_in("Tokyo, Japan")

    print("\nA prompt asks")
    asked = await play(server, springfield, says=ASKS_PLACE)
    place: types.InputResponses = {"place": accept(place="Springfield, Missouri")}
    wanted = "prompt: What do I pack for Springfield, Missouri? Today's sky: sunny."
    await play(server, springfield, place, asked, says=wanted)

    print("\nA resource asks")
    asked_units = await play(server, tokyo, says=ASKS_UNITS)
    expect("the reads before the answer", reads, [])
    units: types.InputResponses = {"units": accept(units="metric")}
    await play(server, tokyo, units, asked_units, says="content: Tokyo, Japan: 19 °C, clear.")
    expect("the reads", reads, ["Tokyo, Japan"])

    print("\nThe user says no, and there is no content")
    asked_units = await play(server, tokyo, says=ASKS_UNITS)
    no: types.InputResponses = {"units": types.ElicitResult(action="decline")}
    await play(server, tokyo, no, asked_units, says=f"error -32602: {weather.declined('units')}")
    expect("the reads", reads, ["Tokyo, Japan"])

    print("\nThe state of the prompt is refused for the resource, and for another address")
    await play(server, tokyo, units, asked, says=REFUSED)
    await play(server, weather_in("Lisbon, Portugal"), units, asked_units, says=REFUSED)
    await play(server, springfield, place, asked_units, says=REFUSED)


if __name__ == "__main__":
    start(demonstrate, __doc__)
