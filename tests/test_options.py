"""Finding option files by their name, and loading one so that two loads share nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from mrtr_options.tool import catalogue as options
from mrtr_options.tool.catalogue import CannotLoad, all_options, load, option_at, option_named
from tests.bounds import SECONDS
from tests.rounds import answer, connected, counts, send, settings, text_of

BUILD = "from mrtr_options.tool.server import build_server\nserver = build_server('mine', None)\n"


def test_every_option_file_is_found_in_order() -> None:
    found = all_options()
    files = sorted(options.DECK.glob("option_?_*.py"))
    assert [option.path for option in found.values()] == files
    assert list(found)[:9] == list("ABCDEFGHI")
    assert found["E"].name == "mrtr native"
    assert found["E"].title == "Option E, MRTR-native: write the rounds by hand, guard first."
    assert found["E"].module == "mrtr_options.option_e_mrtr_native"


def test_a_new_file_is_a_new_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "option_b_second_way.py",
        "option_a_first.py",
        "option_.py",
        "optional.py",
        "server.py",
    ):
        (tmp_path / name).write_text('"""Title."""\n')
    monkeypatch.setattr(options, "DECK", tmp_path)
    found = all_options()
    assert [(option.letter, option.name) for option in found.values()] == [
        ("A", "first"),
        ("B", "second way"),
    ]


def test_an_option_is_named_in_either_case() -> None:
    assert option_named("h") == option_named("H") == all_options()["H"]


@pytest.mark.parametrize("letter", ["", "?", "AB", "1"])
def test_an_option_that_is_not_there_is_one_clear_line(letter: str) -> None:
    with pytest.raises(CannotLoad, match="there are A, B, C, ") as unknown:
        option_named(letter)
    assert repr(letter) in str(unknown.value)


def test_a_file_by_any_other_name_is_a_proposal(tmp_path: Path) -> None:
    path = tmp_path / "my_own_way.py"
    path.write_text("server = None\n")
    option = option_at(path)
    assert (option.letter, option.name, option.title) == ("?", "my own way", "my_own_way")


@pytest.mark.anyio
async def test_two_loads_share_nothing() -> None:
    one, other = settings(), settings()
    path = option_named("H").path
    async with connected(load(path, one).server) as first, connected(load(path, other).server) as second:
        asked = await send(first, "Tokyo")
        assert (await counts(one), await counts(other)) == ("1/0", "0/0")
        await send(second, "Tokyo")
        assert text_of(await answer(first, "Tokyo", asked)) == "Tokyo, Japan: 19 °C, clear."
        assert (await counts(one), await counts(other)) == ("1/1", "1/0")


def test_a_file_without_promises_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(BUILD)
    assert load(path, settings()).promises is None
    path.write_text(BUILD + "promises = '1/1'\n")
    assert load(path, settings()).promises is None


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1\n", "has no `server`; end it with server = build_server"),
        ("server = 'mine'\n", "has no `server`"),
        ("import no_such_module_at_all\n", "does not import: ModuleNotFoundError"),
        ("def (:\n", "does not import: SyntaxError"),
        ("1 / 0\n", "does not import: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "does not import: SystemExit"),
    ],
    ids=["no-server", "not-a-server", "import", "syntax", "raises", "exits"],
)
def test_a_file_that_is_no_option_is_one_clear_line(tmp_path: Path, source: str, complaint: str) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(CannotLoad) as refusal:
        load(path, settings())
    assert str(refusal.value).startswith(f"{path} ")
    assert complaint in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_what_is_no_python_file_is_one_clear_line(tmp_path: Path) -> None:
    folder = tmp_path / "folder.py"
    folder.mkdir()
    notes = tmp_path / "notes.txt"
    notes.write_text("Nothing to run here.\n")
    for path in (tmp_path / "missing.py", tmp_path, folder, notes):
        with pytest.raises(CannotLoad) as refusal:
            load(path, settings())
        assert str(path) in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_a_proposal_that_cannot_be_loaded_is_a_usage_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing.py"
    command = [sys.executable, "-m", "pytest", f"--proposal={missing}", "tests/test_invariant.py"]
    root = Path(__file__).parents[1]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = run.stderr.strip().splitlines()
    assert line.startswith("ERROR: ")
    assert str(missing) in line


def test_an_option_knows_no_other_option() -> None:
    """An option knows the domain, the server, and stand-ins; not its neighbours, nor the judge."""
    allowed = (
        "mrtr_options.sdk",
        "mrtr_options.tool",
    )
    for option in all_options().values():
        tree = ast.parse(option.path.read_text(encoding="utf-8"))
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mrtr_options."):
                assert (node.module or "").startswith(allowed), (
                    f"{option.path.name} imports {node.module}"
                )


def test_no_stand_in_knows_the_tool() -> None:
    for path in (options.DECK / "sdk").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mrtr_options"):
                assert (node.module or "").startswith("mrtr_options.sdk."), f"{path.name}: {node.module}"
