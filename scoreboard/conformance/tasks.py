"""The fixtures of the Tasks scenarios, in the style of option K.

The suite describes what each tool does.
"""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import Server
from mcp_types import CallToolResult

from mrtr_options.sdk.server import outcome_of
from mrtr_options.sdk.tasks import CallParams, TaskContext, TaskStore
from mrtr_options.tool.server import text
from mrtr_options.tool.weather import Question
from scoreboard.conformance import fixtures
from scoreboard.conformance.fixtures import NAME, UNASKED, ToolParams, form

Context = TaskContext[None]


def may_delete(filename: str, key: str = "confirm") -> Question[Any]:
    """Return the question whether to delete a file."""
    return Question(key, f"Delete {filename}?", form("confirm", bool), unasked=UNASKED)


def argument(params: CallParams | ToolParams, name: str, default: Any) -> Any:
    """Return one of the call's arguments."""
    return (params.arguments or {}).get(name, default)


async def greet(ctx: fixtures.Context, params: ToolParams) -> CallToolResult:
    """Greet; this is too short for a task."""
    return text(f"Hello, {argument(params, 'name', 'World')}!")


async def slow_compute(ctx: Context, params: CallParams) -> CallToolResult:
    """Compute for so many seconds."""
    seconds = argument(params, "seconds", 1)
    await ctx.status(f"Computing for {seconds} s.")
    await anyio.sleep(seconds)
    return text(f"{argument(params, 'label', 'slow')}: computed for {seconds} s.")


async def failing_job(ctx: Context, params: CallParams) -> CallToolResult:
    """Fail with a result, as a tool may."""
    return text("This job always fails.", is_error=True)


async def protocol_error_job(ctx: Context, params: CallParams) -> CallToolResult:
    """Fail with an error of the protocol."""
    raise MCPError(types.INTERNAL_ERROR, "This job always ends in an error.")


async def confirm_delete(ctx: Context, params: CallParams) -> CallToolResult:
    """Ask one question."""
    filename = argument(params, "filename", "file.txt")
    answer = await ctx.elicit(may_delete(filename))
    return text(f"{filename} was {'deleted' if answer.confirm else 'kept'}.")


async def multi_input(ctx: Context, params: CallParams) -> CallToolResult:
    """Ask two questions at once, which may be answered one by one."""
    answers = await ctx.elicit_all(may_delete("one.txt", "one"), may_delete("two.txt", "two"))
    deleted = [answer for answer in answers if answer.confirm]
    return text(f"{len(deleted)} of 2 were deleted.")


async def test_tool_with_task(ctx: Context, params: CallParams) -> CallToolResult:
    """Ask in one round, and go on as a task."""
    name: Any = await ctx.elicit(NAME)
    await ctx.become_task()
    return text(f"Hello, {name.name}!")


def server() -> Server[None]:
    store = TaskStore(outcome_of=outcome_of)
    tools: dict[str, Any] = {
        "greet": greet,
        "slow_compute": store.task(slow_compute),
        "failing_job": store.task(failing_job, required=True),
        "protocol_error_job": store.task(protocol_error_job),
        "confirm_delete": store.task(confirm_delete),
        "multi_input": store.task(multi_input),
        "test_tool_with_task": store.task(test_tool_with_task, required=True, asks_first=True),
    }
    return fixtures.server_of("k", tools, resources=[store.serving], extensions=[store])
