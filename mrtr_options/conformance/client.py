"""Our client, as the suite wants it: it connects to the URL it is given and calls the suite's tools.

The connection is that of `client_dual_path`, and the rounds are played by the SDK behind the one
callback. Calls that ask and one that does not are in flight together: what belongs to one must not
turn up in another.

One of the suite's results lacks its `resultType`, which a server of this revision must send. The SDK
(mcp 2.3) refuses it with a ValidationError; the suite checks only that no further round is played.
"""

from __future__ import annotations

import sys

import anyio
import mcp_types as types
from mcp import Client
from mcp.client.session import ClientRequestContext
from pydantic import ValidationError

from mrtr_options.examples.client_dual_path import connect

SECONDS = 20.0
"""How long it has, should the suite not answer."""

TOOLS = (
    "test_mrtr_echo_state",
    "test_mrtr_no_state",
    "test_mrtr_unrelated",
    "test_mrtr_no_result_type",
)


async def agree(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
    """The one callback: the user agrees."""
    return types.ElicitResult(action="accept", content={"confirmed": True})


async def call(client: Client, tool: str) -> None:
    """One call, to its end."""
    try:
        await client.call_tool(tool)
    except ValidationError as refused:
        print(f"{tool}: the SDK refuses the result: {refused.errors()[0]['loc']}", file=sys.stderr)


async def main(url: str) -> None:
    """Call every tool, all at once."""
    with anyio.fail_after(SECONDS):
        async with connect(url, agree) as client, anyio.create_task_group() as calls:
            for tool in TOOLS:
                calls.start_soon(call, client, tool)


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
