"""A tool that asks its user twice and then does one thing, once for each reference.

Keyed replay, option J, without the guard: no store. A call that is made again with the
same reference asks its questions again; the records still take it once.

python own_tool.py 8000 serves it, and pytest test_own_tool.py tries it.

What to change: the arguments, the questions, the effect, and who may call.
docs/USING.md says what each part is for.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from mcp.server import Server
from mcp_types import ToolAnnotations
from mrtr_options import sdk

from mrtr_options.demo.own_tool.default import (
    TOOL,
    Arguments,
    Records,
    World,
    call_tool,
)


@contextmanager
def instance(
    folder: Path, settings: sdk.Settings, fee: int = World.fee
) -> Generator[Server[World]]:
    """Build an instance, whose files are in a folder that all instances share."""
    world = World(Records(folder / "records.sqlite"), fee)
    tool = sdk.Tool(
        TOOL,
        "Does one thing, once for each reference.",
        Arguments,
        sdk.keyed_replay(call_tool),
        annotations=ToolAnnotations(idempotent_hint=True),
    )
    yield sdk.build_server(
        f"{TOOL}-server", tool, lifespan_context=world, settings=settings
    )
