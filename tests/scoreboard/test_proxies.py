"""Tests of the proxies' board without a proxy: the failing instance, and the words of its cells.

`python -m scoreboard.proxies` plays the proxies themselves.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scoreboard.board import read
from scoreboard.proxies import __main__ as command
from scoreboard.proxies import guards, page, play
from scoreboard.proxies.play import (
    Crossed,
    Passed,
    ProxyAbout,
    Setting,
    crossed,
    passed,
    proxies,
)
from scoreboard.proxies.upstream import FAULTS, Name
from scoreboard.servers.peers import Unavailable

ABOUT = ProxyAbout(
    name="none",
    folder=Path(),
    title="No proxy",
    package="",
    needs=[],
    version=[],
    start=[],
    files={},
    settings=[],
)


@asynccontextmanager
async def no_proxy(
    about: ProxyAbout, setting: Setting, folder: Path, a: int, b: int
) -> AsyncGenerator[int]:
    yield b


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "bills", "end"),
    [
        ("reset-before", 0, "error"),
        ("503", 0, "error"),
        ("reset-after", 1, "error"),
        ("502", 1, "error"),
        ("cut", 1, "error"),
        ("gone", 1, "result"),
    ],
)
async def test_an_instance_breaks_the_last_round_once_and_does_what_the_fault_says(
    fault: Name, bills: int, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(play, "_proxy", no_proxy)
    found = await passed(ABOUT, Setting(name="", words={}), fault, "E")
    assert found.deliveries == ["b"]
    assert found.bills == bills
    assert found.end.startswith(end)


def seen(*deliveries: str, bills: int = 1, end: str = "result") -> Passed:
    return Passed(deliveries=[*deliveries], same=True, bills=bills, end=end)


def test_a_cell_with_a_limitation_of_ours_says_nothing_of_the_proxy() -> None:
    cells = dict.fromkeys(play.SUBJECTS, seen("a", end="error: 502"))
    assert page.cell({**cells, "F": seen(end=play.LIMITATION, bills=0)}) == "harness limitation"


@pytest.mark.anyio
async def test_a_gateway_that_changes_nothing_passes_every_round_as_it_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(play, "_proxy", no_proxy)
    found = await crossed(ABOUT, Setting(name="", words={}), "E")
    assert found == crossing(sealed=False, undeclared="`isError`")


@pytest.mark.anyio
async def test_faults_are_played_only_with_a_gateway_through_which_calls_end_in_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def played(about: ProxyAbout, setting: Setting, subject: str) -> Crossed:
        return crossing(end="result" if setting.name == "passes" else "`isError`")

    async def fault(about: ProxyAbout, setting: Setting, fault: Name, subject: str) -> Passed:
        return seen("a")

    def version(about: ProxyAbout) -> str:
        return "gateway 1.0.0"

    settings = [Setting(name=name, words={}) for name in ("passes", "does not")]
    gateway = ABOUT.model_copy(update={"speaks_mcp": True, "settings": settings})
    monkeypatch.setattr(play, "crossed", played)
    monkeypatch.setattr(play, "passed", fault)
    monkeypatch.setattr(play, "version_of", version)
    found = await play.review(gateway, lambda name: None, ["502"])
    assert [*found.settings] == ["passes"]
    assert [*found.crossings] == ["passes", "does not"]


def crossing(*, end: str = "result", sealed: bool = True, undeclared: str = "question") -> Crossed:
    return Crossed(
        sent=3,
        arrived=3,
        same=3,
        sealed=sealed,
        version="2026-07-28",
        can_ask=True,
        bills=1,
        end=end,
        two_gateways="result",
        undeclared=undeclared,
    )


def test_every_setting_that_is_kept_has_every_fault_and_the_guard_charges_once() -> None:
    for name, found in read().proxies.items():
        names = [setting.name for setting in proxies()[name].settings]
        if proxies()[name].speaks_mcp:
            assert [*found.crossings] == names, name
            ends = {each: {one.end for one in of.values()} for each, of in found.crossings.items()}
            names = [each for each in names if ends[each] == {"result"}]
        assert [*found.settings] == names, name
        for by_fault in found.settings.values():
            assert [*by_fault] == [*FAULTS], name
            assert all(cells["F+guard"].bills <= 1 for cells in by_fault.values()), name


KNOWN: dict[str, Any] = {}


def by_location(file: str, function: guards.Function) -> guards.Function:
    """Guard a function as those that others sell do: each argument is done once."""

    def once(location: str) -> Any:
        name = f"{file} {location}"
        if name not in KNOWN:
            KNOWN[name] = function(location)
        return KNOWN[name]

    return once


@pytest.mark.anyio
async def test_a_guard_that_knows_a_call_by_its_arguments_asks_for_ever_but_charges_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guards, "SUBJECTS", ("E",))
    guard = guards.Guard("none", by_location, tool="", charge="")
    found = (await guards.play_guard(guard)).cells
    assert found["tool"]["E"] == guards.Guarded(end="asks for ever", resent=0, called_again=0)
    assert found["charge"]["E"] == guards.Guarded(end="result", resent=1, called_again=1)


def test_a_proxy_that_ends_while_it_is_played_is_left_out_and_the_next_one_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def review(about: ProxyAbout, *_: object) -> play.ProxyResults:
        raise ExceptionGroup("", [ExceptionGroup("", [Unavailable(f"{about.name} ends")])])

    def build(about: ProxyAbout, begin: object) -> None:
        pass

    monkeypatch.setattr(command, "build", build)
    monkeypatch.setattr(command, "review", review)
    assert command.main(["--only", "caddy,envoy"]) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "not tried" in line]
    assert told == ["Caddy: not tried, caddy ends", "Envoy: not tried, envoy ends"]
