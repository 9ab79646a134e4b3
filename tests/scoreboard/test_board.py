"""Tests of the common parts of the boards of servers, frameworks and clients.

`make scoreboard` and `make clients` play the programs in other languages.
"""

import json
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from documents.parts import renew_kept
from scoreboard.board import FILE, OLDER, Kept, Scoreboard, keep, play, read
from scoreboard.clients import __main__ as clients_command
from scoreboard.clients import kept as clients_kept
from scoreboard.clients import peers as clients
from scoreboard.clients.server import SERVERS as CLIENTS_SERVERS
from scoreboard.clients.troubles import TROUBLES
from scoreboard.conformance import __main__ as conformance_command
from scoreboard.cost import __main__ as cost_command
from scoreboard.frameworks import __main__ as frameworks_command
from scoreboard.frameworks import frameworks
from scoreboard.frameworks.cases import cases_for
from scoreboard.libraries import PAGES
from scoreboard.proxies import __main__ as proxies_command
from scoreboard.proxies.play import proxies
from scoreboard.servers import __main__ as servers_command
from scoreboard.servers import peers as servers
from scoreboard.servers.peers import Described, Unavailable, build
from scoreboard.servers.play import ServerReview
from tests.commands import refusal

ROOT = clients.FOLDER.parent
LOCKED = re.compile(r"https?://[^\"\s]*(registry|pypi|crates|proxy\.golang)")
EXACT = re.compile(r"=?\d+\.\d+\.\d+")
KNOWN: dict[str, Mapping[str, Described]] = {
    "servers": servers.peers(),
    "frameworks": frameworks.frameworks(),
}
both = pytest.mark.parametrize("kind", KNOWN)


def versions(manifest: Path) -> list[str]:
    """Return the versions that a manifest installs."""
    text = manifest.read_text(encoding="utf-8")
    match manifest.name:
        case "package.json":
            return [*json.loads(text)["dependencies"].values()]
        case "requirements.txt":
            return [line.partition("==")[2] for line in text.split()]
        case _:
            wanted = tomllib.loads(text)["dependencies"].values()
            return [each if isinstance(each, str) else each["version"] for each in wanted]


NAMES = ("package.json", "requirements.txt", "Cargo.toml")
MANIFESTS = [path for name in NAMES for path in ROOT.glob(f"*/*/{name}")]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_manifest_has_exact_versions(manifest: Path) -> None:
    assert versions(manifest)
    assert [each for each in versions(manifest) if not EXACT.fullmatch(each)] == []


@both
def test_every_folder_says_all_that_is_needed(kind: str) -> None:
    there = {
        path.name for path in (ROOT / kind).iterdir() if path.is_dir() and path.name[0] not in "_."
    }
    assert KNOWN[kind].keys() == there - {"domain"}
    for name, each in KNOWN[kind].items():
        manifests = [path for path in each.folder.iterdir() if path.name in (*NAMES, "go.mod")]
        assert any(each.version in path.read_text(encoding="utf-8") for path in manifests), name
        assert len(each.quote.says.split()) <= 25, name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", each.quote.date), name
        assert each.documentation.startswith("https://"), name
        assert (each.quote.address or each.documentation).startswith("https://"), name
        assert [
            path for path in each.sources if LOCKED.search(path.read_text(encoding="utf-8"))
        ] == []


@both
def test_what_is_kept_is_of_the_sources_that_are_here_or_says_that_it_is_not(kind: str) -> None:
    kept: dict[str, Kept[Any]] = getattr(read(), kind)
    assert kept.keys() == KNOWN[kind].keys(), "stale: run make scoreboard"
    for name, found in kept.items():
        about: Any = KNOWN[kind][name]
        if found.digest != about.digest:
            page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
            assert OLDER in page, f"make scoreboard runs {name} again"
            continue
        variants = {} if found.cannot else {each.name: each for each in about.variants}
        assert found.variants.keys() == variants.keys(), name
        for each in variants:
            assert found.variants[each].version == about.version, name
            if kind == "frameworks":
                expected = [case.name for case in cases_for(variants[each].carries)]
                assert [*found.variants[each].cases] == expected, name
        if variants and kind == "servers":
            assert found.variants["default"].probes.keys() == {
                each.name for each in about.probes
            }, name


def test_what_is_kept_of_clients_is_of_the_versions_in_the_manifests_and_of_every_trouble() -> None:
    report = clients_kept.read()
    known = clients.peers()
    for name, about in report.clients.items():
        peer = known[name]
        assert about.title == peer.title
        assert about.library == peer.library
        assert about.note == peer.note
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", about.date), name
        assert about.version == peer.version(), name
    assert {seen.trouble for seen in report.seen} == TROUBLES.keys()
    assert {seen.client for seen in report.seen} == report.clients.keys()
    assert {seen.server for seen in report.seen} == report.servers.keys() == CLIENTS_SERVERS.keys()


def test_a_page_keeps_the_run_of_a_server_that_could_not_be_built() -> None:
    part = "<!-- begin: run: servers/cobol/default/charged-twice -->\nearlier\n<!-- end -->"
    assert renew_kept(part) == part


def test_what_python_writes_beside_the_sources_is_none_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    left = shutil.ignore_patterns("__pycache__")
    copied = shutil.copytree(servers.FOLDER, tmp_path / "servers", ignore=left)
    monkeypatch.setattr(servers, "DOMAIN", copied / servers.DOMAIN.name)
    peer = servers.peers(copied)["python-lowlevel"]
    before = peer.digest
    for folder in (peer.folder, copied / servers.DOMAIN.name):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "server.cpython-311.pyc").write_bytes(b"\xa7\r")
    assert peer.digest == before
    note = peer.folder / "peer.toml"
    note.write_text(note.read_text(encoding="utf-8") + "# a remark\n", encoding="utf-8")
    assert peer.digest == before, "a remark for the page must not change the digest"
    (peer.folder / "server.py").write_text("", encoding="utf-8")
    assert peer.digest != before


@pytest.mark.parametrize(
    ("main", "arguments", "why"),
    [
        (servers_command.main, ["--only", "cobol"], "there is no server 'cobol'"),
        (frameworks_command.main, ["--only", "cobol"], "there is no framework 'cobol'"),
        (frameworks_command.main, ["--only", "vercel", "--case", "clean"], "needs npm, which is"),
        (frameworks_command.main, ["--case", "clean"], "--case goes with --only"),
        (frameworks_command.main, ["--only", "vercel", "--case", ""], "there is no case ''"),
        (frameworks_command.main, ["--keep"], "--keep goes with --case"),
        (
            frameworks_command.main,
            ["--only", "vercel", "--case", "clean", "--json"],
            "--json goes without --case",
        ),
        (proxies_command.main, ["--fault", "rain"], "there is no fault 'rain'"),
        (proxies_command.main, ["--guards", "--only", "nginx"], "leave out --only and --fault"),
        (clients_command.main, ["--only", "cut"], "there is no trouble 'cut'"),
        (clients_command.main, ["--clients", "curl"], "there is no client 'curl'"),
        (clients_command.main, ["--server", "Z"], "Z"),
        (cost_command.main, ["--bounds", "--only", "calls"], "not allowed with argument --bounds"),
        (conformance_command.main, ["Q"], "there is no server 'Q'; there are E, F, G"),
        (conformance_command.main, ["--what"], "--help"),
        (conformance_command.main, [], "node and npm"),
        (
            clients_command.main,
            ["--clients", "typescript-v1,typescript-v2"],
            "no client can be run: TypeScript v1, TypeScript v2 (needs node, npm",
        ),
    ],
)
def test_what_cannot_be_run_is_refused_in_one_line(
    main: Callable[[list[str]], int],
    arguments: list[str],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    assert why in refusal(main, arguments)


def test_what_is_named_twice_is_played_once(monkeypatch: pytest.MonkeyPatch) -> None:
    python = clients.peers()["python"]
    nothing = clients_kept.Report(servers={}, clients={}, seen=[])
    play = AsyncMock(return_value=nothing)
    monkeypatch.setattr(clients_command, "_play", play)
    installed = Mock(return_value=([python], []))
    monkeypatch.setattr(clients_command, "_installed", installed)
    twice = ["--clients", "python,python", "--only", "none,none", "--server", "F,F"]
    assert clients_command.main(twice) == 0
    installed.assert_called_once_with([python])
    play.assert_awaited_once_with(
        [python], [TROUBLES["none"]], [CLIENTS_SERVERS["F"]], False, False
    )


@pytest.mark.parametrize("command", [servers_command, frameworks_command], ids=[*KNOWN])
def test_nothing_is_run_where_all_is_kept(
    command: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "play", pytest.fail)
    monkeypatch.setattr(command, "changed", Mock(return_value=[]))
    kept = FILE.read_bytes()
    page = (PAGES.parent / "SCOREBOARD.md").read_bytes()
    assert command.main([]) == 0
    assert "has all of them" in capsys.readouterr().err
    assert FILE.read_bytes() == kept
    assert (PAGES.parent / "SCOREBOARD.md").read_bytes() == page


def test_what_cannot_be_built_keeps_the_reason_or_its_earlier_review(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    peer = servers.peers()["python-lowlevel"]
    failing = peer.model_copy(
        update={
            "build": [
                [
                    "sh",
                    "-c",
                    "echo Compiling thiserror v2 >&2; echo error: no such crate >&2; exit 3",
                ]
            ]
        }
    )
    kept: Kept[ServerReview] = play(failing, None, print, servers_command.review)
    assert "error: no such crate" in kept.cannot
    assert kept.cannot.startswith("`sh -c")
    assert kept.variants == {}
    reviewed = read().servers[peer.name].model_copy(update={"digest": failing.digest})
    # A missing tool loses no earlier review.
    assert play(failing, reviewed, print, servers_command.review) == reviewed
    with pytest.raises(Unavailable, match="needs rustcobol, which is not installed"):
        build(peer.model_copy(update={"needs": ["rustcobol"]}), lambda name: None)


def test_a_program_is_built_once_and_found_where_it_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    making = [["mkdir", "bin"], ["touch", "bin/made-up"], ["chmod", "+x", "bin/made-up"]]
    proxy = proxies()["caddy"].model_copy(update={"needs": [], "build": making})
    ran: list[str] = []
    assert proxy.command(["made-up"]) == ["made-up"]
    for _ in range(2):
        build(proxy, ran.append)
    assert ran == ["caddy: mkdir bin", "caddy: touch bin/made-up", "caddy: chmod +x bin/made-up"]
    assert proxy.command(["made-up", "-v"]) == [str(proxy.built / "bin" / "made-up"), "-v"]


@pytest.mark.anyio
async def test_a_program_that_does_not_listen_is_not_available(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def run(program: str) -> None:
        command, log = [sys.executable, "-c", program], tmp_path / "log"
        url = f"http://127.0.0.1:{servers.free_port()}"
        async with servers.listening(command, tmp_path, {}, log, url):
            pytest.fail("it listens")

    with pytest.raises(Unavailable, match="the server ends: no port is free"):
        await run("print('no port is free')")
    monkeypatch.setattr(servers, "START_SECONDS", 0.0)
    with pytest.raises(Unavailable, match="the server does not listen in 0 s"):
        await run("import time; time.sleep(600)")


def test_two_commands_that_keep_at_once_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "scoreboard.json"
    file.write_bytes(FILE.read_bytes())
    every = read(file).frameworks
    renewed = {
        name: Kept[Any](digest=f"new {name}", variants=kept.variants)
        for name, kept in every.items()
    }

    def keep_one(name: str) -> None:
        keep(Scoreboard(frameworks={name: renewed[name]}), file)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep_one, renewed))
    assert [each.digest for each in read(file).frameworks.values()] == [
        f"new {name}" for name in every
    ]
