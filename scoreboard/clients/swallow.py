"""A server over stdio that loses one of its responses to `tools/call`.

`python -m scoreboard.clients.swallow SERVER FOLDER N` serves one of `server.SERVERS` or a subject,
with its effects and its records in that folder, and sends all but the N-th of those responses, or
all if N is 0.
Knows servers, and the SDK's middleware.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

from mrtr_options.review.bench.deployments.processes import LEDGER, build
from mrtr_options.sdk.serving import serve_stdio
from mrtr_options.sdk.testing import Losing
from mrtr_options.tool.weather import SqliteLedger
from scoreboard.clients.proxy import CALL
from scoreboard.clients.server import served_in, way


def main(name: str, folder: Path, lost: int) -> None:
    """Serve one client, until it closes its end."""
    losing = Losing([lost])

    async def swallow(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        is_lost = ctx.method == CALL and losing.loses_next()
        result = await call_next(ctx)
        if is_lost:
            await anyio.sleep_forever()  # the work is done, and nothing is sent
        return result

    server = build(served_in(folder, way(name)), SqliteLedger(folder / LEDGER))
    server.middleware.insert(0, swallow)
    serve_stdio(server)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
