"""Tests of the long job: its counts, its question, the limits of its root, and its cancellation."""

import os
import signal
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError

from examples import index_directory
from examples.index_directory import TOOL, build_index_server, index
from examples.tasks_client import TasksClient
from tests.bounds import SECONDS


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a root with a few directories, and links that lead out of it or back into it."""
    root = tmp_path / "root"
    for name, size in {
        "one/a.txt": 3,
        "one/deep/b.TXT": 5,
        "one/deep/c": 7,
        "two/d.py": 11,
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    (root / ".hidden").mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "way-out").symlink_to(outside)
    (root / "one/way-out").symlink_to(outside)
    (root / "one/secret.txt").symlink_to(outside / "secret.txt")
    (root / "one/circle").symlink_to(root)
    return root


async def count(
    root: Path, *patterns: str, tasks: bool = True, database: str | None = None
) -> list[Any]:
    """Play a call for each pattern; the user takes the second directory. Errors are returned."""

    async def answer(context: Any, params: Any) -> types.ElicitResult:
        offered = params.requested_schema["properties"]["directory"]["enum"]
        return types.ElicitResult(action="accept", content={"directory": offered[1]})

    server = build_index_server(root, poll_seconds=0.01, database=database)
    extensions = [TasksClient()] if tasks else []
    found: list[Any] = []
    with anyio.fail_after(SECONDS):
        async with Client(
            server, mode="2026-07-28", elicitation_callback=answer, extensions=extensions
        ) as client:
            for pattern in patterns:
                try:
                    found.append(await client.call_tool(TOOL, {"pattern": pattern}))
                except MCPError as error:
                    found.append(error)
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("tasks", [True, False], ids=["task", "rounds"])
async def test_a_client_gets_the_same_with_tasks_and_without(
    tree: Path, tasks: bool, engine: str
) -> None:
    (result,) = await count(tree, "*", tasks=tasks, database=engine)
    assert result.content[0].text == "two: 1 files, 11 bytes"
    assert result.structured_content == {"files": {".py": 1}, "bytes": {".py": 11}}


@pytest.mark.anyio
async def test_no_link_is_followed_and_what_is_no_directory_of_the_tree_is_not_found(
    tree: Path,
) -> None:
    missing = ("way-out", "one/circle", "one/a.txt")
    found, *results = await count(tree, "one", *missing, "/", "one/../../outside")
    assert found.structured_content == {"files": {".txt": 2, "": 1}, "bytes": {".txt": 8, "": 7}}
    for pattern, result in zip(missing, results[:3], strict=True):
        assert result.is_error is True
        assert result.content[0].text == f"No directory matches {pattern!r}."
    for refused in results[3:]:
        assert isinstance(refused, MCPError)
        assert refused.code == types.INVALID_PARAMS
        assert "leads out" in refused.message


@pytest.mark.anyio
async def test_an_interrupt_cancels_a_walk_without_an_end(
    tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    is_task = threading.Event()
    interrupted = threading.Event()

    def watched(on_status: Callable[[Any], None]) -> TasksClient:
        def told(task: Any) -> None:
            on_status(task)
            is_task.set()  # before that, there is no task to cancel

        return TasksClient(told)

    def endless(directory: Path) -> Generator[tuple[str, int]]:
        while True:
            if is_task.is_set() and not interrupted.is_set():
                interrupted.set()
                os.kill(os.getpid(), signal.SIGINT)
            yield ".bin", 1

    monkeypatch.setattr(index_directory, "TasksClient", watched)
    monkeypatch.setattr(index_directory, "files_of", endless)
    with anyio.fail_after(SECONDS):
        assert await index(tree, "one") is None
    assert capsys.readouterr().err.endswith("cancelled\n")
