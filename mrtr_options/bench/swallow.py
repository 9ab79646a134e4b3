"""A server over stdio, of whose responses to `tools/call` one is lost.

`python -m mrtr_options.bench.swallow SUBJECT FOLDER N` serves a subject, with its effects and its
records in that folder, and sends all but the N-th of those responses. Knows subjects, and the SDK's
stdio transport.
"""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import mcp_types as types
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from mrtr_options.bench.client import principal_of
from mrtr_options.bench.processes import CALLS, LEDGER, ROUNDS
from mrtr_options.bench.subjects import column_named, make_wrappers, open_store
from mrtr_options.tool import weather
from mrtr_options.tool.catalogue import load
from mrtr_options.tool.settings import Settings


async def main(subject: str, folder: Path, lost: int) -> None:
    """Serve one client until it closes its end."""
    column = column_named(subject)
    settings = Settings(
        weather.SqliteLedger(folder / LEDGER),
        wrappers=make_wrappers(column.wrappers, open_store(folder / ROUNDS)),
        principal=principal_of,
        database=f"sqlite:///{folder / CALLS}",
    )
    server = load(column.option.path, settings)
    calls: set[types.RequestId] = set()
    answered = 0
    async with stdio_server() as (read, write), anyio.create_task_group() as group:
        to_server, received = anyio.create_memory_object_stream[SessionMessage | Exception]()
        sent, to_client = anyio.create_memory_object_stream[SessionMessage]()

        async def requests() -> None:
            async with to_server:
                async for each in read:
                    message = None if isinstance(each, Exception) else each.message
                    if isinstance(message, types.JSONRPCRequest) and message.method == "tools/call":
                        calls.add(message.id)
                    await to_server.send(each)

        async def responses() -> None:
            nonlocal answered
            async for each in to_client:
                if isinstance(each.message, types.JSONRPCResponse | types.JSONRPCError):
                    answered += each.message.id in calls
                    if answered == lost and each.message.id in calls:
                        continue
                await write.send(each)

        group.start_soon(requests)
        group.start_soon(responses)
        async with sent:
            await server.run(received, sent, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
