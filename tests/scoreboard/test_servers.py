"""The servers of others: their folders, what is kept of them, the page, the command, and one of them.
The others, and what needs other languages, are in `make scoreboard`."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest

from mrtr_options.bench.client import connections
from mrtr_options.bench.deployments.memory import Memory
from mrtr_options.bench.deployments.remote import Remote
from mrtr_options.bench.faults import Era
from mrtr_options.bench.history import History
from mrtr_options.bench.run import run
from mrtr_options.bench.schedules import named
from mrtr_options.bench.subjects import Subject
from mrtr_options.judge import anomalies
from mrtr_options.judge.cases import systematic
from mrtr_options.judge.contract import violations
from mrtr_options.judge.findings import Finding, story
from mrtr_options.judge.properties import Problem
from mrtr_options.sdk.serving import listen, web_server
from mrtr_options.tool.catalogue import Option, all_options
from mrtr_options.tool.weather import SqliteLedger
from scoreboard.board import FILE, Kept, play, read
from scoreboard.servers import peers as servers
from scoreboard.servers.__main__ import main
from scoreboard.servers.lives import life
from scoreboard.servers.page import FINDINGS, PAGE, renewed, rows
from scoreboard.servers.peers import DOMAIN, FOLDER, Unavailable, build, peers
from scoreboard.servers.play import Life, Reviewed, told
from tests.judge.foreign import INVALID, Error, Foreign, served

EXACT = re.compile(r"[=^~<>v]*\d+\.\d+\.\d+\S*")
MANIFESTS = ("requirements.txt", "package.json", "go.mod", "Cargo.toml")
LOCKED = re.compile(r"https?://[^\"\s]*(registry|pypi|crates|proxy\.golang)")
KEY = "0123456789abcdef0123456789abcdef"


def manifest(folder: Path) -> str:
    (found,) = [folder / name for name in MANIFESTS if (folder / name).is_file()]
    return found.read_text(encoding="utf-8")


# --- folders and what is kept -------------------------------------------------------------------


def test_every_folder_says_all_that_is_needed() -> None:
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir() and path.name[0] not in "_."}
    known = peers()
    assert known.keys() == folders - {DOMAIN.name}
    for peer in known.values():
        assert peer.style in {*all_options(), "M", "N"}, peer.name
        assert peer.version in manifest(peer.folder), peer.name
        assert len(peer.quote.says.split()) <= 25, peer.name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", peer.quote.date), peer.name
        assert peer.documentation.startswith("https://"), peer.name
        assert peer.quote.address.startswith("https://"), peer.name
        assert peer.variants[0].name == "default", peer.name
        for path in peer.sources:
            assert not LOCKED.search(path.read_text(encoding="utf-8")), path


def test_what_python_writes_beside_the_sources_is_none_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    copied = shutil.copytree(FOLDER, tmp_path / "servers", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(servers, "FOLDER", copied)
    monkeypatch.setattr(servers, "DOMAIN", copied / DOMAIN.name)
    peer = peers(copied)["python-lowlevel"]
    before = peer.digest
    for folder in (peer.folder, copied / DOMAIN.name):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "server.cpython-311.pyc").write_bytes(b"\xa7\r")
    assert peer.digest == before
    (peer.folder / "server.py").write_text("", encoding="utf-8")
    assert peer.digest != before


def test_the_manifests_have_exact_versions() -> None:
    for peer in peers().values():
        if (peer.folder / "package.json").is_file():
            found = json.loads(manifest(peer.folder))["dependencies"]
            assert all(re.fullmatch(r"\d+\.\d+\.\d+", each) for each in found.values()), peer.name
        elif (peer.folder / "requirements.txt").is_file():
            lines = manifest(peer.folder).split()
            assert all(re.fullmatch(r"[\w.-]+==\d+\.\d+\.\d+", each) for each in lines), peer.name
        elif (peer.folder / "Cargo.toml").is_file():
            wanted = tomllib.loads(manifest(peer.folder))["dependencies"].values()
            exact = [each if isinstance(each, str) else each["version"] for each in wanted]
            assert all(re.fullmatch(r"=\d+\.\d+\.\d+", each) for each in exact), peer.name


def test_what_is_kept_is_of_the_sources_that_are_here() -> None:
    known, board = peers(), read()
    assert board.servers.keys() == known.keys(), "stale: run make scoreboard"
    for name, kept in board.servers.items():
        assert kept.digest == known[name].digest, f"stale: make scoreboard runs {name} again"
        assert all(each.version == known[name].version for each in kept.variants.values())
        assert kept.cannot or kept.variants.keys() == {each.name for each in known[name].variants}
        assert kept.cannot or kept.variants["default"].probes.keys() == {
            each.name for each in known[name].probes
        }


def test_the_page_is_made_from_what_is_kept() -> None:
    kept = PAGE.read_text(encoding="utf-8")
    assert renewed(kept, read()) == kept, "stale: run make scoreboard"
    stale = kept.replace("result lost (`lost3`)", "not seen")
    assert stale != kept
    assert renewed(stale, read()) == kept


@pytest.mark.parametrize("page", FINDINGS, ids=lambda page: page.stem)
def test_a_finding_shows_a_run_that_is_kept_of_the_version_it_names(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert renewed(text, read()) == text, "stale: run make scoreboard"
    shown = re.findall(r"<!-- begin: servers, run: (.*?), .*? -->\n```text\n1. ", text)
    ((name,),) = [set(shown)]
    assert peers()[name].version in text
    assert f"$ python -m scoreboard.servers --only {name}\n" in text
    index = (page.parent / "README.md").read_text(encoding="utf-8")
    assert f"]({page.name})" in index


def test_every_row_was_reviewed_by_both_kinds_of_client() -> None:
    for peer, variant, found in rows(read()):
        if not found.cannot:
            policies = {(tried.policy, tried.fleet) for tried in found.tried}
            assert len(policies) == 4, f"{peer.name} {variant.name}"
            assert found.runs > 50, f"{peer.name} {variant.name}"


# --- the command --------------------------------------------------------------------------------


def test_an_unknown_server_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--only", "cobol"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "there is no server 'cobol'" in said
    assert said.count("\n") == 1


def test_nothing_is_run_where_all_is_kept(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("scoreboard.servers.__main__.play", pytest.fail)
    before = FILE.read_bytes(), PAGE.read_bytes()
    assert main([]) == 0
    assert "has all of them" in capsys.readouterr().err
    assert (FILE.read_bytes(), PAGE.read_bytes()) == before


def test_a_server_that_cannot_be_built_keeps_the_reason_or_its_earlier_review(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    peer = peers()["python-lowlevel"]
    failing = peer.model_copy(update={"build": [["sh", "-c", "echo error: no such crate >&2; exit 3"]]})
    kept: Kept[Reviewed] = play(failing, None, lambda name: None, {})
    assert "error: no such crate" in kept.cannot
    assert kept.cannot.startswith("`sh -c")
    assert kept.variants == {}
    reviewed = read().servers[peer.name].model_copy(update={"digest": failing.digest})
    assert play(failing, reviewed, lambda name: None, {}) == reviewed  # want of a tool loses nothing
    page = PAGE.with_name("findings") / "server-go-sdk.md"
    text = page.read_text(encoding="utf-8")
    assert renewed(text, read().model_copy(update={"servers": {}})) == text
    with pytest.raises(Unavailable, match="needs rustcobol, which is not installed"):
        build(peer.model_copy(update={"needs": ["rustcobol"]}), lambda name: None)


def test_a_server_that_is_built_again_keeps_the_time_of_its_first_build(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    peer = peers()["python-lowlevel"].model_copy(update={"build": [["true"]]})
    before = Kept[Reviewed](digest="of older sources", build_seconds=80)
    times = [play(peer, before, lambda name: None, {}).build_seconds for _ in range(2)]
    assert times[0] < 80
    assert times[1] == 80


class RefusesLater(Foreign):
    """Takes five answers: all of two calls, and one of a third."""

    taken = 0

    def check_state(self, state: str, answers: dict[str, Any]) -> None:
        self.taken += 1
        if self.taken > 5:
            raise Error(INVALID, "this state is too old")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "found"),
    [(Foreign, Life(good=-1, refused=None)), (RefusesLater, Life(good=-2, refused=-1))],
)
async def test_the_life_of_a_state_is_between_the_oldest_taken_and_the_youngest_refused(
    kind: type[Foreign], found: Life, tmp_path: Path
) -> None:
    with served(kind(tmp_path / "effects.sqlite")) as url:
        SqliteLedger(tmp_path / "effects.sqlite")
        async with connections() as http:
            assert await life(url, http, (-3, -2, -1)) == found


# --- one of them --------------------------------------------------------------------------------


@pytest.fixture
def lowlevel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The Python lowlevel server's module, with its ledger."""
    for name in ("MRTR_LEDGER", "STATE_SECRET"):
        monkeypatch.setenv(name, KEY if name == "STATE_SECRET" else str(tmp_path / "effects.sqlite"))
    monkeypatch.setattr(sys, "path", [str(FOLDER / "python-lowlevel"), str(servers.DOMAIN), *sys.path])
    for name in ("server", "weather"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    module = importlib.import_module("server")
    yield module
    for name in ("server", "weather"):
        monkeypatch.delitem(sys.modules, name, raising=False)


ATTACKED = next(each for each in systematic() if each.name == "attacks-tokyo")


@pytest.mark.anyio
@pytest.mark.parametrize("variant", ["default", "hardened"])
async def test_the_lowlevel_server_of_the_python_sdk_is_as_its_rows_say(
    variant: str, lowlevel: Any, tmp_path: Path
) -> None:
    kept = read().servers["python-lowlevel"].variants[variant]
    ledger = SqliteLedger(tmp_path / "effects.sqlite")
    subject = Subject(Option("?", "python-lowlevel", tmp_path))
    scenarios = [named("clean-springfield"), named("lost-final"), ATTACKED]
    found: list[History] = []
    with listen(0) as listener:
        http = web_server(lowlevel.build(variant), listener)
        where = Remote([f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"], ledger)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: http.serve(sockets=[listener]))
            found += [await run(subject, each.on_one(), where) for each in scenarios]
            http.should_exit = True
    clean, lost, attacked = found
    assert violations(clean) == []
    assert "duplicate bill" in anomalies.found(lost)
    assert "lost3" in kept.tried[0].shown["duplicate bill"]
    broken = {each.property for each in violations(attacked)}
    assert ("state-is-genuine" in broken) == (variant == "default")
    assert [each.rule for each in kept.breaks] == sorted(broken & {"state-is-genuine"})


@pytest.mark.anyio
async def test_a_history_tells_what_an_old_client_was_asked() -> None:
    subject = Subject(all_options()["B"])
    eras: list[tuple[Era, int]] = [("legacy", 2), ("modern", 0)]
    for era, asked in eras:  # a modern one gets questions in responses
        history = await run(subject, named("clean-springfield", era).on_one(), Memory())
        problem = Problem("content-is-one-text", None, "a text", "another")
        for lines in (told(history), story(Finding(history, problem))):
            assert sum(line.startswith("   asks: Which") for line in lines) == asked
            assert sum(line.startswith("   answers ") for line in lines) == asked
