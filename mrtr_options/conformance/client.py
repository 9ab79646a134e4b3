"""Our client, as the suite wants it: it connects to the URL it is given and calls the suite's tools.

The connection is that of `client_dual_path`, and the rounds are played by the SDK behind the one
callback. Calls that ask and one that does not are in flight together: what belongs to one must not
turn up in another.
"""

from __future__ import annotations

import sys

import anyio
import mcp_types as types
from mcp.client.session import ClientRequestContext

from mrtr_options.client_dual_path import connect
from mrtr_options.conformance.scenarios import CLIENT

SCENARIOS = CLIENT
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


async def main(url: str) -> None:
    """Call every tool, all at once."""
    with anyio.fail_after(SECONDS):
        async with connect(url, agree) as client, anyio.create_task_group() as calls:
            for tool in TOOLS:
                calls.start_soon(client.call_tool, tool)


if __name__ == "__main__":
    anyio.run(main, sys.argv[-1])
