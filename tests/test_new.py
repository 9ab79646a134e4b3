"""Tests of `new`: the files that it writes pass ruff, pyright and their own tests."""

import json
import shutil
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from mrtr_options import sdk
from mrtr_options.__main__ import main
from mrtr_options.demo.own_tool import STYLES, default, files_of
from mrtr_options.sdk.protection import new_key
from tests.commands import REPOSITORY, output, python, refusal
from tests.evidence import every
from tests.sending import connected

NEW = ("-m", "mrtr_options", "new")
NAMES = ("x", "transfer_money", "orderTaxi2", "a" * 64)
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
RULES = PROJECT["tool"]["ruff"]["lint"]


def run(folder: Path, *command: str) -> str:
    """Return the output of a module in a folder; check that it ends with 0."""
    return output(sys.executable, "-m", *command, cwd=folder)


@pytest.mark.slow
@pytest.mark.parametrize(
    "style", every("what new writes", {style: style for style in STYLES}, also=("default",))
)
def test_what_new_writes_passes_its_own_tests(style: str, tmp_path: Path) -> None:
    written = python(*NEW, "order_taxi.py", f"--style={style.upper()}", cwd=tmp_path)
    assert written.stdout.startswith("order_taxi.py is written"), written.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"order_taxi.py", "test_order_taxi.py"}
    assert "17 passed" in run(tmp_path, "pytest", "-v", "test_order_taxi.py")


def write(folder: Path, style: str, name: str) -> None:
    """Write the tool and the test of a style."""
    for prefix, text in zip(("", "test_"), files_of(style, name), strict=True):
        (folder / f"{prefix}{name}.py").write_text(text, encoding="utf-8")


def test_what_new_writes_for_any_name_passes_ruff(tmp_path: Path) -> None:
    for style, name in product(STYLES, NAMES):
        folder = tmp_path / f"{style}_{name}"
        folder.mkdir()
        write(folder, style, name)
    ours = [
        f"--select={','.join(RULES['select'])}",
        f"--ignore={','.join([*RULES['ignore'], 'E501', 'N999'])}",  # a long name, an odd name
        f"--config=lint.pydocstyle.convention = {RULES['pydocstyle']['convention']!r}",
    ]
    run(tmp_path, "ruff", "check", "--isolated", "--config=src = ['*']", *ours, ".")
    run(tmp_path, "ruff", "format", "--isolated", "--check", ".")


@pytest.mark.evidence("what new writes")
@pytest.mark.skipif(shutil.which("npm") is None, reason="needs npm: apt-get install nodejs npm")
def test_what_new_writes_passes_pyright(tmp_path: Path) -> None:
    for style in STYLES:
        write(tmp_path, style, f"tool_{style}")
    config = {"typeCheckingMode": "strict", "extraPaths": [str(REPOSITORY)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config), encoding="utf-8")
    assert "0 errors" in run(tmp_path, "pyright", "--pythonpath", sys.executable)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("calendar.py",), "would hide the module calendar"),
        (("os.py",), "would hide the module os"),  # a module inside the interpreter
        (("class.py",), "is not a tool's name"),
        (("a" * 65 + ".py",), "is not a tool's name"),
        (("order_taxi",), "is not a file name that ends in .py"),
        (("order_taxi.py", "--style", "x"), "there is no style 'x'"),
        (("no_folder/order_taxi.py",), "cannot write"),
        (("there.py",), "there.py is there already"),
        (("tried.py",), "test_tried.py is there already"),
    ],
)
def test_new_refuses_in_one_line_and_writes_nothing(
    arguments: tuple[str, ...], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("there.py", "test_tried.py"):
        (tmp_path / name).write_text("", encoding="utf-8")
    assert says in refusal(main, ["new", *arguments])
    assert {path.name for path in tmp_path.iterdir()} == {"there.py", "test_tried.py"}


@pytest.mark.parametrize("command", ["order_taxi.py no-port", "order_taxi.py 0"])
def test_a_written_server_refuses_in_one_line_what_it_cannot_start_with(
    command: str, tmp_path: Path
) -> None:
    write(tmp_path, "default", "order_taxi")
    ran = python(*command.split(), cwd=tmp_path, MRTR_STATE_KEYS="short")
    assert ran.returncode == 2, ran.stderr
    assert ran.stdout == "", ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr


@pytest.mark.anyio
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_new_writes_asks_the_one_caller_over_stdio(era: Any, tmp_path: Path) -> None:
    settings = sdk.Settings(keys=[new_key()], principal=default.caller_of)
    with default.instance(tmp_path, settings) as server:
        async with connected(server, era) as client:
            result = await client.call_tool("own_tool", {"item": "x", "reference": "r"})
    assert default.Records(tmp_path / "records.sqlite").all()[0][0] == "local"
    assert not result.is_error
