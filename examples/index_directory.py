"""A job that is long enough to be a task: counting what is in a directory of the server's root.

`index_directory(pattern)` asks, once, which directory is meant if several match. Then it counts
files and bytes by suffix, and reports its progress. No pattern and no link leads out of the root.
After a cancellation it stops at the next batch of files.

Knows `mcp` and `sdk`. Run it: `python -m examples.index_directory PATH`.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Literal, cast

import anyio.to_thread
import mcp_types as types
from mcp import Client, MCPError
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, create_model

from examples.tasks_client import TaskCancelled, TasksClient, cancel_task
from mrtr_options import sdk
from mrtr_options.sdk.tasks import CallParams
from mrtr_options.terminal import Parser, refuse, run

TOOL = "index_directory"
BATCH = 500
"""The number of files after which a cancellation is noticed."""

MOST_MATCHES = 50
"""The largest number of directories that a question offers."""


def find(root: Path, pattern: str) -> list[str]:
    """Return the matching directories, sorted; at most one more than `MOST_MATCHES`."""
    found = (p for p in root.glob(pattern) if p.is_dir() and p.resolve() == p and p.name[0] != ".")
    return sorted(str(path.relative_to(root)) for path in islice(found, MOST_MATCHES + 1))


def files_of(directory: Path) -> Generator[tuple[str, int]]:
    """Yield suffix and size of each regular file. No link is followed."""
    for _, _, names, folder in os.fwalk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # deleted meanwhile
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield PurePath(name).suffix.lower(), status.st_size


class Index(BaseModel):
    """The arguments of the tool."""

    pattern: str = "*"


async def call_index(ctx: sdk.TaskContext[Path], params: CallParams) -> types.CallToolResult:
    """Count the files of a directory, the tool `index_directory`.

    Matches and counts are recorded: if another process goes on, it asks the same question.
    """
    root = ctx.lifespan_context
    pattern = sdk.arguments_of(params, Index).pattern
    if {"", ".", "..", "**"} & set(pattern.split("/")):
        raise MCPError(types.INVALID_PARAMS, f"The pattern {pattern!r} leads out of the root.")
    found = await ctx.step("find", lambda key: anyio.to_thread.run_sync(find, root, pattern))
    if not 0 < len(found) <= MOST_MATCHES:
        many = f"More than {MOST_MATCHES} directories match" if found else "No directory matches"
        return sdk.text(f"{many} {pattern!r}.", is_error=True)
    directory = found[0]
    if len(found) > 1:
        form = create_model("Directory", directory=(cast("Any", Literal)[tuple(found)], ...))
        said = f"{len(found)} directories match {pattern!r}."
        answer: Any = await ctx.elicit(
            sdk.Question("directory", f"Which? {said}", form, unasked=said)
        )
        directory = answer.directory

    async def count(key: str) -> dict[str, dict[str, int]]:
        files = Counter[str]()
        sizes = Counter[str]()
        with closing(files_of(root / directory)) as entries:
            while batch := await anyio.to_thread.run_sync(lambda: list(islice(entries, BATCH))):
                for suffix, size in batch:
                    files[suffix] += 1
                    sizes[suffix] += size
                await ctx.status(f"{directory}: {files.total():,} files so far")
        return {"files": files, "bytes": sizes}

    counts: dict[str, dict[str, int]] = await ctx.step("count", count)
    files = sum(counts["files"].values())
    size = sum(counts["bytes"].values())
    result = sdk.text(f"{directory}: {files:,} files, {size:,} bytes")
    return result.model_copy(update={"structured_content": counts})


def build_index_server(root: Path, poll_seconds: float = 0.05, database: str | None = None) -> Any:
    """Build the server of the tool, which looks into `root`; clients poll it at an interval."""
    store = sdk.TaskStore(poll_seconds=poll_seconds, outcome_of=sdk.outcome_of)
    tool = sdk.Tool(TOOL, "Counts the files of a directory.", Index, store.task(call_index))
    return sdk.build_server(
        "index",
        tool,
        lifespan_context=root.resolve(),
        settings=sdk.Settings(database=database),
        resources=[store.serving],
        extensions=[store],
    )


async def index(root: Path, pattern: str) -> types.CallToolResult | None:
    """Call the tool as a user who takes the first directory; return None if Ctrl-C cancels it."""
    seen: list[str] = []

    async def first(context: object, params: Any) -> types.ElicitResult:
        offered: list[str] = params.requested_schema["properties"]["directory"]["enum"]
        print(f"asked: {params.message}\nanswered: {offered[0]}", file=sys.stderr)
        return types.ElicitResult(action="accept", content={"directory": offered[0]})

    def on_status(task: Any) -> None:
        seen.append(task.task_id)
        print(task.status_message or task.status, file=sys.stderr)

    async def cancel_on_interrupt() -> None:
        with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
            async for _ in interrupts:
                if seen:
                    await cancel_task(client.session, seen[0])
                else:
                    group.cancel_scope.cancel()  # its server stops a call that is no task yet

    client = Client(
        build_index_server(root),
        mode=LATEST_MODERN_VERSION,
        elicitation_callback=first,
        extensions=[TasksClient(on_status)],
    )
    async with client, anyio.create_task_group() as group:
        group.start_soon(cancel_on_interrupt)
        try:
            return await client.call_tool(TOOL, {"pattern": pattern})
        except MCPError as error:
            return sdk.text(error.message, is_error=True)
        except TaskCancelled:
            pass
        finally:
            group.cancel_scope.cancel()
    print("cancelled", file=sys.stderr)
    return None


def main(argv: list[str] | None = None) -> int:
    """Count a directory beneath PATH; return 1 if none was counted, or the call was cancelled."""
    parser = Parser("python -m examples.index_directory", description="Count files, as a task.")
    parser.add_argument("path", nargs="?", type=Path, default=Path(), help="the root (here)")
    parser.add_argument("--pattern", default="*", help="which directory in it, e.g. 'src/*' (any)")
    args = parser.parse_args(argv)
    if not args.path.is_dir():
        refuse(f"there is no directory {args.path}")
    result = anyio.run(index, args.path, args.pattern)
    for each in result.content if result else ():
        print(each.text if isinstance(each, types.TextContent) else each)
    return 1 if result is None or result.is_error else 0


if __name__ == "__main__":
    sys.exit(run(main))
