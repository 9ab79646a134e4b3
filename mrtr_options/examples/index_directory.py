"""A job that is long enough to be a task: counting what is in a directory tree.

The weather is over before a client has looked twice. `index_directory(pattern)` walks a real tree on
the server:

1. it looks for the directories that match the pattern, beneath a root that the server was started with;
2. if there are several it asks, once, which of them is meant (question "directory");
3. it walks that one and says meanwhile how far it is (`statusMessage`);
4. it returns how many files there are, and how many bytes, by suffix.

It is a task for a client that takes tasks, and a call in rounds for any other; it can be cancelled at
any time and stops at the next batch of files. Nothing outside the root is looked at: a pattern cannot
lead out of it, and no link is followed, since one that stays inside leads to what is counted anyway.
It only reads, so a walk whose process dies is begun again by another; what was found and what was
asked is on record, so that the question stays the same.

Knows the `mcp` SDK, the shape of a question, what the shared server says of arguments, and the stand-in
of option K. Run it:
`python -m mrtr_options.examples.index_directory PATH`.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import anyio
import anyio.to_thread
import mcp_types as types
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, Field, create_model, field_validator
from pydantic_core import PydanticCustomError
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from mrtr_options.demo.person import Person
from mrtr_options.sdk.extension import add_extension
from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined
from mrtr_options.sdk.tasks import Call, TaskContext, TaskStore
from mrtr_options.sdk.tasks.client import TaskCancelled, TasksClient, cancel_task
from mrtr_options.sdk.tasks.wire import TaskFields
from mrtr_options.show.terminal import Parser, console, plural, refuse, run
from mrtr_options.tool.server import fitting, text, without_names
from mrtr_options.tool.weather import Question

T = TypeVar("T")

TOOL = "index_directory"
BATCH = 500
"""How many entries of the tree are looked at before the walk can be cancelled again."""
MOST_MATCHES = 50
"""How many directories a question may offer."""


# --- the tree -----------------------------------------------------------------------------------


class Arguments(BaseModel):
    """Arguments of the tool.

    Attributes:
        pattern: Which directory beneath the root, as in the shell: "docs", "*", "src/*". Names that
            begin with a dot have to be named.
    """

    pattern: str = Field(default="*", min_length=1, max_length=200)

    @field_validator("pattern")
    @classmethod
    def _stays_inside(cls, pattern: str) -> str:
        if {"", ".", ".."} & set(pattern.split("/")):
            raise PydanticCustomError("way_out", "no way out of the root")
        return pattern


@dataclass
class Count:
    """Regular files and their bytes."""

    files: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        """Count one file more."""
        self.files += 1
        self.bytes += size


@dataclass
class Index:
    """What was found in a directory.

    Attributes:
        directory: Which, from the root.
        total: Of all files.
        suffixes: By suffix, e.g. ".py"; "" for files without one.
        unreadable: How many directories could not be read.
    """

    directory: str
    total: Count = field(default_factory=Count)
    suffixes: dict[str, Count] = field(default_factory=dict[str, Count])
    unreadable: int = 0

    def __str__(self) -> str:
        return f"{self.directory}: {self.total.files:,} files, {self.total.bytes:,} bytes"


class Tree:
    """A directory tree that the server lets its clients look into.

    Args:
        root: Nothing outside of it is looked at.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    async def find(self, pattern: str) -> list[str]:
        """The directories that match, from the root, in order; one more than `MOST_MATCHES` at most."""
        found: list[str] = []
        async with aclosing(_in_batches(self._directories(tuple(pattern.split("/"))))) as batches:
            async for batch in batches:
                found += [name for name in batch if name is not None]
                if len(found) > MOST_MATCHES:
                    break
        return sorted(found)[: MOST_MATCHES + 1]

    async def walk(self, directory: str) -> AsyncGenerator[Index]:
        """Count the files of one of the directories; yields the count so far, the last one is all.

        Args:
            directory: As `find` returned it.
        """
        index = Index(directory)
        async with aclosing(_in_batches(self._files(index))) as batches:
            async for batch in batches:
                for suffix, size in batch:
                    index.total.add(size)
                    index.suffixes.setdefault(suffix, Count()).add(size)
                yield index
        yield index

    def _directories(self, pattern: tuple[str, ...]) -> Generator[str | None]:
        """The directories that fit; None for every one that does not."""
        for folder, names, _ in os.walk(self.root):
            at = PurePosixPath(Path(folder).relative_to(self.root))
            part, *deeper = pattern[len(at.parts) :]
            fitting: list[str] = []
            for name in names:
                fits = _fits(name, part) and not Path(folder, name).is_symlink()
                fitting += [name] if fits else []
                yield str(at / name) if fits and not deeper else None
            names[:] = fitting if deeper else []

    def _files(self, index: Index) -> Generator[tuple[str, int]]:
        """Suffix and size of each regular file."""

        def unreadable(_: OSError) -> None:
            index.unreadable += 1

        top = self.root / index.directory
        if not top.resolve().is_relative_to(self.root):  # it became a link after it was found
            return
        for _, _, names, folder in os.fwalk(top, onerror=unreadable):
            for name in names:
                try:
                    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
                except FileNotFoundError:  # deleted meanwhile
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield PurePosixPath(name).suffix.lower(), status.st_size


def _fits(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))


async def _in_batches(entries: Generator[T]) -> AsyncGenerator[list[T]]:
    """The entries, found in a thread; between two batches the caller can be cancelled."""

    def batch(entries: Iterator[T]) -> list[T]:
        return list(islice(entries, BATCH))

    with closing(entries):
        while found := await anyio.to_thread.run_sync(batch, entries):
            yield found


# --- the tool -----------------------------------------------------------------------------------


class Directory(BaseModel):
    """Answer to "directory"."""

    directory: str


def which_directory(pattern: str, found: list[str]) -> Question[Directory]:
    """Question "directory": which of those that were found?"""
    choices: Any = Literal[tuple(found)]  # known only at run time
    answer = create_model("Directory", __base__=Directory, directory=(choices, ...))
    return Question(
        "directory",
        f"Which directory? {len(found)} match {pattern!r}.",
        answer,
        unasked=f"{len(found)} directories match {pattern!r}. This client cannot be asked: name one.",
    )


async def call_index(ctx: TaskContext[Tree], params: Call) -> types.CallToolResult:
    """The tool `index_directory(pattern)`."""
    tree = ctx.lifespan_context
    pattern = Arguments.model_validate(params.arguments or {}).pattern

    await ctx.status(f"Looking for {pattern!r}.")
    found = await ctx.step("find", lambda key: tree.find(pattern))  # recorded: it may change meanwhile
    if not found:
        return text(f"No directory matches {pattern!r}.", is_error=True)
    if len(found) > MOST_MATCHES:
        return text(f"More than {MOST_MATCHES} directories match {pattern!r}: say more.", is_error=True)

    directory = found[0]
    if len(found) > 1:
        await ctx.status(f"{len(found)} directories match.")
        answer = await ctx.elicit(which_directory(pattern, found))
        directory = answer.directory

    index = Index(directory)
    async with aclosing(tree.walk(directory)) as walk:
        async for index in walk:
            await ctx.status(str(index))
    return types.CallToolResult(
        content=[types.TextContent(text=str(index))], structured_content=asdict(index)
    )


def outcome_of(error: Exception) -> types.CallToolResult | None:
    """What an outcome that the handler may raise looks like on the wire; None if it is not one."""
    match error:
        case Declined() | Cancelled():
            return text("Nothing was counted: no directory was chosen.")
        case CannotAsk():
            return text(str(error), is_error=True)
        case _:
            return None


_TOOL = types.Tool(
    name=TOOL,
    description="Counts the files of a directory on the server, by suffix. Asks which one is meant.",
    input_schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **without_names(Arguments.model_json_schema()),
    },
)


def build_index_server(tree: Tree, store: TaskStore) -> Server[Tree]:
    """The server of the tool.

    Args:
        tree: What it may look into.
        store: Where its tasks are kept; of a server of its own, with `outcome_of`.
    """
    call = store.task(call_index)

    async def list_tools(
        ctx: ServerRequestContext[Tree, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_TOOL])

    async def call_tool(
        ctx: ServerRequestContext[Tree, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        fitting(params, TOOL, Arguments)
        try:
            return await call(ctx, params)
        except Exception as error:
            if (result := outcome_of(error)) is not None:
                return result
            raise

    @asynccontextmanager
    async def lifespan(_: Server[Tree]) -> AsyncGenerator[Tree]:
        async with store.serving(tree):
            yield tree

    server = Server(
        "index", version="1", on_list_tools=list_tools, on_call_tool=call_tool, lifespan=lifespan
    )
    boundary = RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience=server.name)
    server.middleware.append(boundary)
    add_extension(server, store)
    return server


# --- running it ---------------------------------------------------------------------------------

User = Callable[[types.ElicitRequestFormParams], Awaitable[types.ElicitResult]]


async def first(form: types.ElicitRequestFormParams) -> types.ElicitResult:
    """A user who takes the first directory that is offered."""
    offered: list[str] = form.requested_schema["properties"]["directory"]["enum"]
    return types.ElicitResult(action="accept", content={"directory": offered[0]})


async def index(root: Path, pattern: str, user: User, progress: Progress) -> types.CallToolResult:
    """One call through a client in memory that takes tasks, with a bar that shows how far it is.

    Ctrl-C cancels the task.

    Raises:
        MCPError: The arguments do not fit.
        TaskCancelled: Ctrl-C.
    """
    bar = progress.add_task("", total=None)
    task_id = ""
    created = anyio.Event()

    def on_status(task: TaskFields) -> None:
        nonlocal task_id
        task_id = task.task_id
        created.set()
        progress.update(bar, description=task.status_message or task.status)

    async def ask(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        progress.console.print(f"asked: {params.message}")
        response = await user(params)
        said = (response.content or {}).get("directory", response.action)
        progress.console.print(f"answered: {said}")
        return response

    store = TaskStore(poll_seconds=0.05, outcome_of=outcome_of)
    server = build_index_server(Tree(root), store)
    mode, tasks = LATEST_MODERN_VERSION, TasksClient(on_status)
    outcome: types.CallToolResult | MCPError | TaskCancelled | None = None
    async with (
        Client(server, mode=mode, elicitation_callback=ask, extensions=[tasks]) as client,
        anyio.create_task_group() as group,
    ):

        async def cancel_on_interrupt() -> None:
            with anyio.open_signal_receiver(signal.SIGINT) as interrupts:
                async for _ in interrupts:
                    await created.wait()
                    await cancel_task(client.session, task_id)

        group.start_soon(cancel_on_interrupt)
        try:
            outcome = await client.call_tool(TOOL, {"pattern": pattern})
        except (MCPError, TaskCancelled) as error:
            outcome = error  # raised below, as it is and not in a group
        group.cancel_scope.cancel()
    if isinstance(outcome, types.CallToolResult):
        return outcome
    assert outcome is not None
    raise outcome


def main(argv: list[str] | None = None) -> int:
    """Count a directory beneath PATH. Returns 1 if there is nothing to count, or it was cancelled."""
    parser = Parser(
        prog="python -m mrtr_options.examples.index_directory",
        description="Count the files of a directory as a task, against a server in this process.",
    )
    parser.add_argument("path", nargs="?", type=Path, default=Path(), help="the root (here)")
    parser.add_argument("--pattern", default="*", help="which directory in it, e.g. 'src/*' (any)")
    parser.add_argument("--interactive", action="store_true", help="choose yourself (the first one)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args(argv)
    if not args.path.is_dir():
        refuse(f"there is no directory {args.path}")
    progress = Progress(
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=console(stderr=True),
        transient=not args.interactive,
        disable=args.interactive,  # it would be drawn over the question
    )
    user = Person(progress.console) if args.interactive else first
    try:
        with progress:
            result = anyio.run(index, args.path, args.pattern, user, progress)
    except TaskCancelled:
        print("cancelled", file=sys.stderr)
        return 1
    except MCPError as error:
        refuse(error.message)
    found = result.structured_content
    if found is None:
        print("".join(each.text for each in result.content if isinstance(each, types.TextContent)))
        return 1
    if args.json:
        print(json.dumps(found, ensure_ascii=False, indent=1))
        return 0
    print(f"{found['directory']}\n{'suffix':<12}{'files':>10}{'bytes':>16}")
    suffixes: dict[str, dict[str, int]] = found["suffixes"]
    for suffix, count in sorted(suffixes.items(), key=lambda each: -each[1]["bytes"]):
        print(f"{suffix or '(none)':<12}{count['files']:>10,}{count['bytes']:>16,}")
    print(f"{'all':<12}{found['total']['files']:>10,}{found['total']['bytes']:>16,}")
    if found["unreadable"]:
        print(f"not read: {plural(found['unreadable'], 'directory', 'directories')}")
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
