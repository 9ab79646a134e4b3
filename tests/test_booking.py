"""Tests of USING: its files are those of examples/booking, and do what the page says."""

import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from mrtr_options.review.bench.world.starting import program
from tests.commands import REPOSITORY, output

FOLDER = REPOSITORY / "examples" / "booking"
PAGE = (REPOSITORY / "docs" / "USING.md").read_text(encoding="utf-8")
LISTED = dict(re.findall(r"\*\*`(.*?)`\*\*\n\n```python\n(.*?)```\n", PAGE, re.DOTALL))
ASKED = re.findall(r"^\$ python call.py .*\n((?:.+\n)*)```", PAGE, re.MULTILINE)[0]
ROWS = re.findall(r"^\$ python lost.py\n((?:.+\n)*)```", PAGE, re.MULTILINE)[0]

pytestmark = pytest.mark.slow


def copied(folder: Path) -> Path:
    """Copy the files that the page has its reader copy."""
    return shutil.copytree(FOLDER, folder, dirs_exist_ok=True)


def follow(command: list[str], folder: Path) -> None:
    """Serve, call, and lose a response as the page does."""
    serve = [*command, "book_table.py", "0"]
    with program(serve, cwd=folder, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        url = next(line for line in server.stderr if line.startswith("http")).strip()
        assert output(*command, "call.py", url, "Ada", cwd=folder) == ASKED
        said = [next(server.stderr) for _ in range(4)]
        assert [re.findall(r"round (\d): (\w+)", line) for line in said[1:]] == [
            [("1", "input_required")],
            [("2", "input_required")],
            [("3", "complete")],
        ]
        call = [*command, "call.py", url, "Bob", "0123456789abcdef"]
        booked = output(*call, cwd=folder).splitlines()
        assert output(*call, cwd=folder).splitlines() == booked[-1:]  # a second call asks nothing
    assert output(*command, "lost.py", cwd=folder) == ROWS


def test_the_page_shows_the_tool_and_names_the_other_files() -> None:
    assert {"book_table.py": (FOLDER / "book_table.py").read_text(encoding="utf-8")} == LISTED
    for path in FOLDER.glob("*.py"):
        assert path.name in PAGE


def test_the_page_can_be_followed(tmp_path: Path) -> None:
    follow([sys.executable], copied(tmp_path))


def test_the_task_of_the_page_books_once(tmp_path: Path) -> None:
    pytest.importorskip("dbos")
    code = """
import secrets, sys; sys.path[:0] = ["."]
import anyio
from mcp import Client
from book_by_task import build
from call import user
from restaurant import Restaurant
from tasks_client import TasksClient

async def main():
    restaurant, words = Restaurant("bookings.sqlite"), []
    tasks = TasksClient(lambda task: words.append(task.status))
    async with Client(
        build(restaurant), mode="2026-07-28", elicitation_callback=user, extensions=[tasks]
    ) as client:
        await client.call_tool("book_table", {"guest": "Ada", "party": 3, "reference": "0" * 16})
    print(sorted(set(words)), restaurant.bookings())

anyio.run(main)
"""
    shutil.copy(REPOSITORY / "examples" / "tasks_client.py", tmp_path)
    said = output(sys.executable, "-c", code, cwd=copied(tmp_path)).splitlines()[-1]
    assert said == "['completed', 'input_required', 'working'] [('Ada', 3, '21:00', 'voucher')]"


@pytest.mark.evidence("the wheel in a fresh environment")
def test_a_wheel_in_a_fresh_environment_runs_the_page(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    folder = tmp_path / "booking"
    folder.mkdir()
    left = shutil.ignore_patterns(".*", "build", "node_modules", "__pycache__")
    # pip builds inside the source folder, so give it a copy.
    shutil.copytree(REPOSITORY, tmp_path / "checkout", ignore=left)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(wheels)]
    output(*pip, str(tmp_path / "checkout"), cwd=tmp_path)
    (wheel,) = wheels.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    own = str(tmp_path / "env" / "bin" / "python")
    constraints = ["-c", str(REPOSITORY / "constraints.txt")]
    output(own, "-m", "pip", "install", "--quiet", *constraints, str(wheel), cwd=tmp_path)
    follow([own], copied(folder))
