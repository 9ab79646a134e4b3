"""The long job: what it counts, what it asks, where it may look, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client, MCPError
from mcp.client.session import ClientRequestContext
from mcp_types.version import LATEST_MODERN_VERSION

from mrtr_options.examples import index_directory
from mrtr_options.examples.index_directory import TOOL, Tree, build_index_server, main, outcome_of
from mrtr_options.sdk.tasks import TaskStore
from mrtr_options.sdk.tasks.client import TaskCancelled, TasksClient, cancel_task
from mrtr_options.sdk.tasks.wire import TaskFields
from tests.bounds import SECONDS
from tests.warm import python

REPOSITORY = Path(__file__).parent.parent


@pytest.fixture
def anyio_backend() -> str:
    """The engine runs on asyncio only."""
    return "asyncio"


class Person:
    """A client's user: chooses a directory, and notes what was asked and reported."""

    def __init__(self, choice: str | None = None, action: str = "accept") -> None:
        self.choice = choice
        self.action = action
        self.asked: list[list[str]] = []
        self.said: list[str] = []

    async def answer(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestFormParams)
        offered: list[str] = params.requested_schema["properties"]["directory"]["enum"]
        self.asked.append(offered)
        if self.action != "accept":
            return types.ElicitResult.model_validate({"action": self.action})
        return types.ElicitResult(action="accept", content={"directory": self.choice or offered[0]})

    def on_status(self, task: TaskFields) -> None:
        if task.status_message is not None:
            self.said.append(task.status_message)


@asynccontextmanager
async def connected(root: Path, user: Person, *, tasks: bool = True) -> AsyncGenerator[Client]:
    store = TaskStore(poll_seconds=0.01, outcome_of=outcome_of)
    server = build_index_server(Tree(root), store)
    extensions = [TasksClient(user.on_status)] if tasks else []
    with anyio.fail_after(SECONDS):
        async with Client(
            server,
            mode=LATEST_MODERN_VERSION,
            elicitation_callback=user.answer,
            extensions=extensions,
        ) as client:
            yield client


async def count(root: Path, pattern: str, user: Person, *, tasks: bool = True) -> types.CallToolResult:
    async with connected(root, user, tasks=tasks) as client:
        return await client.call_tool(TOOL, {"pattern": pattern})


def words(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def shell_count(directory: Path) -> dict[str, tuple[int, int]]:
    """Files and bytes by suffix, as `find` sees them."""
    found = subprocess.run(
        ["find", str(directory), "-type", "f", "-printf", "%s %f\\n"],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    files, sizes = Counter[str](), Counter[str]()
    for line in found.stdout.splitlines():
        size, _, name = line.partition(" ")
        suffix = os.path.splitext(name)[1].lower()
        files[suffix] += 1
        sizes[suffix] += int(size)
    return {suffix: (files[suffix], sizes[suffix]) for suffix in files}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A root with a few directories in it, and links that lead out of it and round in circles."""
    root = tmp_path / "root"
    for name, size in {
        "one/a.txt": 3,
        "one/deep/b.TXT": 5,
        "one/deep/c": 7,
        "two/deep/d.py": 11,
        ".hidden/e.py": 13,
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret", encoding="utf-8")
    (root / "way-out").symlink_to(outside)
    (root / "one/way-out").symlink_to(outside)
    (root / "one/secret.txt").symlink_to(outside / "secret.txt")
    (root / "one/circle").symlink_to(root)
    return root


@pytest.mark.anyio
@pytest.mark.parametrize("directory", ["mrtr_options", "tests", "docs"])
async def test_this_repository_is_counted_as_the_shell_counts_it(directory: str) -> None:
    user = Person(directory)
    result = await count(REPOSITORY, "*", user)
    found: dict[str, Any] = result.structured_content or {}
    counted = {name: (each["files"], each["bytes"]) for name, each in found["suffixes"].items()}
    # What the interpreter leaves behind may change while tests run.
    counted.pop(".pyc", None)
    expected = shell_count(REPOSITORY / directory)
    expected.pop(".pyc", None)
    assert counted == expected
    assert len(user.asked) == 1
    assert directory in user.asked[0]
    assert user.said


@pytest.mark.anyio
@pytest.mark.parametrize("tasks", [True, False], ids=["task", "rounds"])
async def test_a_client_gets_the_same_with_tasks_and_without(tree: Path, tasks: bool) -> None:
    user = Person("one")
    result = await count(tree, "*", user, tasks=tasks)
    assert words(result) == "one: 3 files, 15 bytes"
    assert user.asked == [["one", "two"]]
    assert bool(user.said) == tasks


@pytest.mark.anyio
async def test_no_link_is_followed(tree: Path) -> None:
    result = await count(tree, "one", Person())
    assert result.structured_content == {
        "directory": "one",
        "total": {"files": 3, "bytes": 15},
        "suffixes": {".txt": {"files": 2, "bytes": 8}, "": {"files": 1, "bytes": 7}},
        "unreadable": 0,
    }


@pytest.mark.anyio
@pytest.mark.parametrize("pattern", ["way-out", "one/way-out", "one/circle", "nothing", "one/a.txt"])
async def test_what_is_no_directory_of_the_tree_is_not_found(tree: Path, pattern: str) -> None:
    result = await count(tree, pattern, Person())
    assert result.is_error
    assert words(result) == f"No directory matches {pattern!r}."


@pytest.mark.anyio
@pytest.mark.parametrize("pattern", ["..", "../outside", "/", "/tmp", "one/../../outside", "./one", ""])
async def test_a_pattern_that_leads_out_of_the_root_is_refused(tree: Path, pattern: str) -> None:
    user = Person()
    async with connected(tree, user) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool(TOOL, {"pattern": pattern})
    assert refused.value.code == types.INVALID_PARAMS
    assert "pattern" in refused.value.message


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", ["one", "two"]),
        ("*/deep", ["one/deep", "two/deep"]),
        ("one/d*", ["one/deep"]),
        (".*", [".hidden"]),
        ("t?o", ["two"]),
    ],
)
async def test_a_pattern_fits_as_in_the_shell(tree: Path, pattern: str, found: list[str]) -> None:
    assert await Tree(tree).find(pattern) == found


@pytest.mark.anyio
async def test_a_pattern_full_of_stars_takes_no_longer_than_another(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*("a" * 40))
    deep.mkdir(parents=True)
    with anyio.fail_after(SECONDS):
        assert await Tree(tmp_path).find("/".join(["*"] * 39 + ["b"])) == []


@pytest.mark.anyio
async def test_a_directory_that_became_a_link_after_it_was_found_is_not_entered(tree: Path) -> None:
    async for index in Tree(tree).walk("way-out"):
        assert index.total.files == 0


@pytest.mark.anyio
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_user_who_does_not_choose_has_nothing_counted(tree: Path, action: str) -> None:
    result = await count(tree, "*", Person(action=action))
    assert not result.is_error
    assert words(result) == "Nothing was counted: no directory was chosen."


@pytest.mark.anyio
async def test_more_matches_than_a_question_can_offer_are_an_error(tmp_path: Path) -> None:
    for number in range(index_directory.MOST_MATCHES + 1):
        (tmp_path / f"d{number}").mkdir()
    result = await count(tmp_path, "*", Person())
    assert result.is_error
    assert "say more" in words(result)


@pytest.fixture(scope="session")
def large_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with 4,000 files in 20 directories, all links to one."""
    root = tmp_path_factory.mktemp("large")
    first = root / "first.bin"
    first.write_bytes(b"x")
    for folder in range(20):
        directory = root / "all" / str(folder)
        directory.mkdir(parents=True)
        for number in range(200):
            os.link(first, directory / f"{number}.bin")
    return root


@pytest.mark.anyio
async def test_a_walk_is_cancelled_midway_within_a_second(large_tree: Path) -> None:
    for _ in range(3):  # a machine that pauses for a moment is no slow cancellation
        if await _seconds_to_cancel_midway(large_tree) <= 1:
            return
    pytest.fail("three times it took longer")


async def _seconds_to_cancel_midway(large_tree: Path) -> float:
    batches: list[int] = []
    halfway, go_on = anyio.Event(), anyio.Event()
    walk = Tree.walk

    async def slowed(self: Tree, directory: str) -> AsyncGenerator[index_directory.Index]:
        async for index in walk(self, directory):
            batches.append(index.total.files)
            if len(batches) == 3:
                halfway.set()
                await go_on.wait()  # else the walk might be over before it is cancelled
            yield index

    user = Person()
    tasks: list[str] = []
    user.on_status = lambda task: tasks.append(task.task_id)
    seconds: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tree, "walk", slowed)
        async with connected(large_tree, user) as client, anyio.create_task_group() as group:

            async def cancel() -> None:
                await halfway.wait()
                before = anyio.current_time()
                with anyio.fail_after(SECONDS):
                    await cancel_task(client.session, tasks[0])
                seconds.append(anyio.current_time() - before)

            group.start_soon(cancel)
            with pytest.raises(TaskCancelled):
                await client.call_tool(TOOL, {"pattern": "all"})
    assert batches == [500, 1000, 1500]
    return seconds[0]


@pytest.mark.slow
def test_an_interrupt_ends_a_walk_without_an_end(large_tree: Path) -> None:
    code = (
        "import itertools, sys; from mrtr_options.examples import index_directory as job;"
        "says = lambda: print('counting', file=sys.stderr, flush=True);"
        "endless = ((says() if n == 0 else None, ('.bin', 1))[1] for n in itertools.count());"
        "job.Tree._files = lambda self, index: endless;"
        f"sys.exit(job.main([{str(large_tree)!r}, '--pattern', 'all']))"
    )
    job = subprocess.Popen([*python(), "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        _wait_until_it_counts(job)
        job.send_signal(signal.SIGINT)
        _, errors = job.communicate(timeout=SECONDS)
    finally:
        job.kill()
        job.wait()
    assert job.returncode == 1
    assert "cancelled" in errors
    assert "Traceback" not in errors


def _wait_until_it_counts(job: subprocess.Popen[str]) -> None:
    assert job.stderr is not None
    for line in job.stderr:
        if "counting" in line:
            return
    pytest.fail("it ended before it counted")


def test_the_main_shows_the_question_the_answer_and_the_counts(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tree)]) == 0
    seen = capsys.readouterr()
    assert "asked: Which directory? 2 match '*'." in seen.err
    assert "answered: one" in seen.err
    assert ".txt" in seen.out
    assert all(len(line) <= 100 for line in seen.out.splitlines())


def test_the_main_prints_json(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tree), "--pattern", "two", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["total"] == {"files": 1, "bytes": 11}


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["no-such-place"], "there is no directory"), ([".", "--pattern", "../x"], "no way out")],
)
def test_the_mains_bad_input_is_refused_in_one_line(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]
