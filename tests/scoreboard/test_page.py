"""What is kept of the clients, the page that is made from it, and the command."""

from __future__ import annotations

import json
import re

import pytest

from scoreboard.clients.__main__ import main
from scoreboard.clients.page import PAGE, read, renewed
from scoreboard.clients.play import ROOT, TROUBLES, Unavailable, peers


def test_the_page_is_made_from_what_is_kept() -> None:
    kept = PAGE.read_text(encoding="utf-8")
    assert renewed(kept, read()) == kept
    stale = kept.replace("| Python SDK | `mcp` |", "| Python SDK | `mcp2` |")
    assert stale != kept
    assert renewed(stale, read()) == kept


def test_what_is_kept_is_of_the_versions_in_the_manifests_and_of_every_trouble() -> None:
    report, known = read(), peers()
    for name, about in report.clients.items():
        peer = known[name]
        assert (about.title, about.library, about.note) == (peer.title, peer.library, peer.note)
        manifests = [peer.folder / file for file in ("package.json", "requirements.txt")]
        pins = next((each for each in manifests if each.is_file()), ROOT / "constraints.txt")
        assert about.version in pins.read_text(encoding="utf-8"), name
    assert {seen.trouble for seen in report.seen} == TROUBLES.keys()
    assert {seen.client for seen in report.seen} == report.clients.keys()


def test_the_manifests_have_exact_versions() -> None:
    for peer in peers().values():
        if (file := peer.folder / "package.json").is_file():
            versions = json.loads(file.read_text(encoding="utf-8"))["dependencies"]
            assert all(re.fullmatch(r"\d+\.\d+\.\d+", each) for each in versions.values()), peer.name
        elif (file := peer.folder / "requirements.txt").is_file():
            lines = file.read_text(encoding="utf-8").split()
            assert all(re.fullmatch(r"[\w.-]+==\d+\.\d+\.\d+", each) for each in lines), peer.name


def test_without_node_what_is_left_out_is_said_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Unavailable, match="needs node and npm"):
        peers()["typescript-v2"].install()
    with pytest.raises(SystemExit) as ended:
        main(["--clients", "typescript-v1,typescript-v2"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("needs node and npm") == 1
    assert "TypeScript v1, TypeScript v2" in said


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--only", "cut"], "there is no trouble 'cut'"),
        (["--clients", "curl"], "there is no client 'curl'"),
        (["--server", "Z"], "Z"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1
