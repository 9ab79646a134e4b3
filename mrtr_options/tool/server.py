"""The weather tool on the shared server: the names that an option file imports.

How a tool of any kind is served is in `sdk.server`; this is one user of it. What a server is
configured with (its ledger, its keys) is not the author's business, so an option file does not
mention it: `build_server` takes it from the settings in force (see `settings`). Knows the rest of
`tool`, and the common part of `sdk`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp.server.extension import Extension
from mcp.server.mcpserver import Elicit, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool as HighTierTool

from mrtr_options.sdk import server as sdk
from mrtr_options.sdk.handler import CallParams, Crashed, Handler, needs_seal
from mrtr_options.sdk.questions import AnswerT, Cancelled, Declined, Question
from mrtr_options.sdk.server import Resource, text
from mrtr_options.tool import weather
from mrtr_options.tool.settings import Context, Params, Result, settings_in_force

__all__ = [
    "TOOL",
    "Context",
    "Handler",
    "Params",
    "Result",
    "build_high_tier",
    "build_server",
    "elicit",
    "location_of",
    "outcome_of",
    "text",
]

TOOL = "weather"
_DESCRIPTION = (
    "Today's weather in a place. Asks which place is meant, and in which units to report."
)

_logger = logging.getLogger(__name__)


def build_server(
    name: str,
    handler: Handler,
    *,
    sealed: bool | None = None,
    resources: Sequence[Resource] = (),
    extensions: Sequence[Extension] = (),
) -> Server[weather.Desk]:
    """Return the weather server around one option's handler.

    Args:
        name: The server's name. States are bound to it: another option refuses them.
        handler: Answers `tools/call` for the weather tool; may raise the domain's outcomes.
        sealed: Whether clients must not be able to read the state (see `protection`); by default
            whether the handler's stand-in needs it.
        resources: See `sdk.server.build_server`.
        extensions: See `sdk.server.build_server`.
    """
    settings = settings_in_force()
    arguments = weather.WeatherArguments
    around = [_naming_the_ledger, *settings.wrappers]
    return sdk.build_server(
        name,
        sdk.Tool(TOOL, _DESCRIPTION, arguments, handler, around, outcome_of),
        lifespan_context=weather.Desk(settings.ledger),
        settings=settings,
        sealed=needs_seal(handler) if sealed is None else sealed,
        resources=resources,
        extensions=extensions,
    )


def build_high_tier(name: str, tool: Callable[..., Awaitable[Any]]) -> MCPServer[weather.Desk]:
    """Return the weather server on the SDK's high tier, around one option's tool.

    Argument check, outcomes and the texts of errors are the SDK's own here, but for an exception of
    the author's: it ends as it does for every other option. The state is sealed, as it is by
    default on that tier.

    Args:
        name: As for `build_server`.
        tool: The function to be registered as the weather tool.

    Raises:
        ValueError: The settings ask for wrappers; the high tier has no handler to put them around.
    """
    settings = settings_in_force()
    if settings.wrappers:
        raise ValueError("wrappers go around a lowlevel handler, and the high tier has none")
    made = _Tool.from_function(tool, TOOL, description=_DESCRIPTION, structured_output=False)
    made.parameters = sdk.without_names(made.parameters)
    with _logging_as_it_is():
        server = MCPServer(
            name,
            version="1",
            tools=[made],
            lifespan=sdk.shared_lifespan(settings, weather.Desk(settings.ledger), ()),
            cache_hints=sdk.CACHE_HINTS,
        )
    sdk.protect(server, settings)
    return server


class _Tool(HighTierTool):
    """A tool of the high tier whose exceptions end a call as on the lowlevel tier."""

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return await super().run(*args, **kwargs)
        except UnexpectedToolError as error:
            match error.__cause__:
                case weather.UnknownPlace() as unknown:
                    raise ToolError(f"{error}: {unknown}") from unknown
                case weather.LedgerUnusable():
                    raise _without_ledger() from None
                case cause:
                    raise Crashed from cause


def elicit(question: Question[AnswerT]) -> Elicit[AnswerT]:
    """Return a question as a resolver of the high tier returns it."""
    return Elicit(question.message, question.answer)


@contextmanager
def _logging_as_it_is() -> Generator[None]:
    """Take back what is done to the root logger inside this block.

    `MCPServer` sends all logs of the process to standard error. That is the host's to decide: one
    that also serves other options would see their engine's warnings there.
    """
    root = logging.getLogger()
    handlers = root.handlers[:]
    level = root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def location_of(params: Params | CallParams) -> str:
    """Return the tool's one argument."""
    return (params.arguments or {})["location"]


def outcome_of(error: Exception) -> types.CallToolResult | None:
    """Return an outcome that a handler raised as it goes on the wire; None for another error."""
    match error:
        case Declined():
            return text(weather.declined(error.key))
        case Cancelled():
            return text(weather.cancelled(error.key))
        case weather.UnknownPlace():
            return text(str(error), is_error=True)
        case _:
            return sdk.outcome_of(error)


def _naming_the_ledger(handler: Handler) -> Handler:
    """Wrap a handler so that its client learns that the ledger is the reason."""

    async def call(ctx: Context, params: Params) -> Result:
        try:
            return await handler(ctx, params)
        except weather.LedgerUnusable as error:
            _logger.error("a call was ended: %s", error)
            raise _without_ledger() from None

    return call


def _without_ledger() -> MCPError:
    return MCPError(
        types.INTERNAL_ERROR,
        "This server cannot do effects now, so the call ends here."
        " Its earlier effects have happened.",
        {"reason": "ledger_unusable"},
    )
