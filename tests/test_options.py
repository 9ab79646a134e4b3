"""Tests of option files: they are found by name, two loads share nothing; and the high tier."""

import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from mcp.server.mcpserver import MCPServer

from mrtr_options.review.bench.world.watch import load_watched
from mrtr_options.sdk.legacy_shim import legacy_shim
from mrtr_options.tool import catalogue as options
from mrtr_options.tool.catalogue import CannotLoad, load, option_at, option_named
from mrtr_options.tool.guarantees import Guarantees
from tests.fixtures import entry_of
from tests.sending import answer, connected, counts, send, settings, text_of


@pytest.mark.anyio
async def test_two_loads_share_nothing() -> None:
    one = settings()
    other = settings()
    path = option_named("H").path
    async with connected(load(path, one)) as first, connected(load(path, other)) as second:
        asked = await send(first, "Tokyo")
        assert await counts(one) == "1/0"
        assert await counts(other) == "0/0"
        await send(second, "Tokyo")
        assert text_of(await answer(first, "Tokyo", asked)) == "Tokyo, Japan: 19 °C, clear."
        assert await counts(one) == "1/1"
        assert await counts(other) == "1/0"


def test_an_option_of_the_deck_is_found_by_letter_name_and_path() -> None:
    for letter, option in options.whole_deck().items():
        assert option_at(option.path) == option
        stem = option.path.stem
        for name in (letter.lower(), stem[9:].upper(), stem, option.path.name, str(option.path)):
            assert option_named(name) == option
    assert option_named("E").title.startswith("Option E, MRTR-native: write the rounds by hand")


@pytest.mark.parametrize(
    ("right", "wrong", "complaint"),
    [
        ("readable", "legible", "readable: Field required"),
        ("readable = ", "colour = 'red'\nreadable = ", "colour: Extra inputs are not permitted"),
        ('"restart"', '"flood"', "survives.1: Input should be 'failover' or 'restart'"),
        ("readable = true", "readable = maybe", "Invalid value (at line 10"),
    ],
)
def test_guarantees_that_cannot_be_read_are_one_clear_line(
    tmp_path: Path, right: str, wrong: str, complaint: str
) -> None:
    beside = tmp_path / "mine.toml"
    beside.write_text(entry_of("E").replace(right, wrong))
    with pytest.raises(CannotLoad, match=rf"\A{beside}: {re.escape(complaint)}.*\Z"):
        option_at(tmp_path / "mine.py")


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("x = 1\n", "has no `server`; check --init"),
        ("server = 'mine'\n", "its `server` is not a Server of the package mcp; check --init"),
        ("import no_such_module_at_all\n", "does not import: ModuleNotFoundError"),
        ("1 / 0\n", "does not import: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "does not import: SystemExit"),
        ("async def build_server(): ...\n", "build_server() gives a coroutine, and no mcp Server"),
        ("def build_server(): ...\n", "build_server() gives a NoneType, and no mcp Server"),
    ],
    ids=["no-server", "not-a-server", "import", "raises", "exits", "async", "gives-none"],
)
def test_a_file_that_is_no_option_is_one_clear_line(
    tmp_path: Path, source: str, complaint: str
) -> None:
    path = tmp_path / "mine.py"
    path.write_text(source)
    with pytest.raises(CannotLoad, match=rf"\A{path} .*{re.escape(complaint)}.*\Z"):
        load(path, settings())


@pytest.mark.parametrize(
    "load_file",
    [
        load,
        partial(load_watched, on_entry=print),
        partial(load_watched, on_entry=print, on_line=print),
    ],
    ids=["loaded", "watched", "watched by line"],
)
def test_a_file_is_loaded_as_python_loads_it(
    tmp_path: Path, load_file: Callable[..., object]
) -> None:
    path = tmp_path / "mine.py"
    text = (
        '# coding: latin-1\nasync def tool(ctx, wanted: int):\n    """Zürich"""\n'
        'assert tool.__doc__ == "Z\\xfcrich"\n'
        'assert tool.__annotations__["wanted"] is int\n'
    )
    path.write_text(text, encoding="latin-1")
    with pytest.raises(CannotLoad, match="has no `server`"):
        load_file(path, settings())


PATH = option_named("I").path


def test_two_files_with_one_letter_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("option_n_new", "option_n_newer"):
        (tmp_path / f"{name}.py").write_text('"""Title."""\n')
    monkeypatch.setattr(options, "DECK", tmp_path)
    with pytest.raises(CannotLoad, match=r"option_n_newer\.py have one letter"):
        options.whole_deck()


def test_every_option_has_an_entry_and_all_have_the_same_keys_in_the_same_order() -> None:
    deck = tomllib.loads((options.DECK / options.GUARANTEES).read_text(encoding="utf-8"))
    assert list(deck) == [
        path.name[7].upper() for path in sorted(options.DECK.glob("option_?_*.py"))
    ]
    for entry in deck.values():
        assert list(entry) == [key for key in Guarantees.model_fields if key in entry]


def test_the_high_tier_refuses_wrappers() -> None:
    run_with = replace(settings(), wrappers=[legacy_shim])
    with pytest.raises(CannotLoad, match="the high tier has none"):
        load(PATH, run_with)
    assert isinstance(load(PATH, settings()), MCPServer)
