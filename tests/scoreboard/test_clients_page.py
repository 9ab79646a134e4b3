"""Tests of CLIENTS: the verdicts on the stored runs of clients, and how the page shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from scoreboard.clients import __main__ as command
from scoreboard.clients.counts import (
    with_policy,
)
from scoreboard.clients.kept import About, Report, failed_controls, keep, read
from scoreboard.clients.page import cell, runs
from scoreboard.clients.play import Cell, Seen
from scoreboard.clients.server import SERVERS
from scoreboard.clients.tables import headlines


def seen(trouble: str = "cut-final", client: str = "python", **more: Any) -> Seen:
    """Return a run in which F charged once, and the application got an error."""
    found: dict[str, Any] = {
        "client": client,
        "era": "modern",
        "trouble": trouble,
        "server": "F",
        "got": "error",
        "says": "E: x",
        "requests": 3,
        "usable": True,
        "audits": 1,
        "bills": 1,
    }
    return Seen.model_validate(found | more)


def about(title: str, date: str = "2026-11-27", *, is_ours: bool = False) -> About:
    """Return a client of version 1."""
    return About(title=title, library="x", version="1.0", note="", is_ours=is_ours, date=date)


def report(*runs: Seen) -> Report:
    """Return a report on a shipped client and on ours."""
    clients = {"python": about("Python SDK"), "resuming": about("Ours", is_ours=True)}
    titles = {name: each.title for name, each in SERVERS.items()}
    return Report(servers=titles, clients=clients, seen=[*runs])


@pytest.mark.parametrize(
    ("run", "says"),
    [
        (seen(), "⚠ error 1/1"),
        (seen(bills=0), "error 1/0"),
        (seen(usable=False), "☠ dead 1/1"),
        (seen(got="client error", usable=None), "☠ dead 1/1"),
        (seen(got="nothing", says="", usable=None, seconds=90), "⏳ hangs 1/1"),
        (seen(seconds=60), "⚠ error 60 s 1/1"),
        (
            seen(got="result", anew=1, bills=2, audits=2),
            "‼ charged twice: result, called again 2/2",
        ),
        (seen(got="result", again=1, bills=2), "‼ charged twice: result, resent 1/2"),
        (seen(got="result", anew=1, audits=2), "result, called again 2/1"),
        (seen(got="result", says="", audits=None, bills=None), "empty result"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_cell_is_marked_by_the_worst_thing_about_it(run: Seen, says: str) -> None:
    assert cell(run) == says


def test_a_run_of_another_era_is_no_run_of_its_client() -> None:
    fine = seen("none", got="result", version="2026-07-28")
    assert failed_controls(report(fine)) == []
    assert failed_controls(report(seen("none", got="result", version="2025-11-25"))) != []


def test_a_client_that_calls_again_in_one_era_is_counted_as_that_alone() -> None:
    runs = [
        seen(client="x"),
        seen(client="x", era="legacy", anew=1),
        seen(client="x-retrying", anew=1),
    ]
    kept = report(*runs)
    kept.clients = {"x": about("X"), "x-retrying": about("X with retries")}
    assert with_policy(kept, "stops") == {}
    assert headlines(kept)[1] == (
        "**2 of 2 clients call the tool again, by themselves or through their model.** "
        "1 of them do so only with a setting that is off by default. X (legacy), X with retries."
    )


def test_a_client_that_is_run_again_takes_the_place_of_its_earlier_run(tmp_path: Path) -> None:
    file = tmp_path / "clients.json"
    file.write_text('{"server": "of an older version"}', encoding="utf-8")
    keep(report(seen(), seen(client="resuming")), file)
    again = report(seen(bills=2), seen("502"))
    again.clients = {"python": about("Python SDK", "2026-12-01")}
    keep(again, file)
    kept = read(file)
    assert [(each.client, each.trouble, each.bills) for each in kept.seen] == [
        ("python", "cut-final", 2),
        ("python", "502", 1),
        ("resuming", "cut-final", 1),
    ]
    assert {name: each.date for name, each in kept.clients.items()} == {
        "python": "2026-12-01",
        "resuming": "2026-11-27",
    }


def test_a_part_is_kept_beside_the_other_runs_of_its_version(tmp_path: Path) -> None:
    file = tmp_path / "clients.json"
    keep(report(seen(), seen("502")), file)
    part = report(seen("502", bills=2, date="2026-12-01"))
    keep(part, file, whole=False)
    kept = read(file)
    assert [(each.trouble, each.bills, each.date) for each in kept.seen] == [
        ("cut-final", 1, ""),
        ("502", 2, "2026-12-01"),
    ]
    assert kept.clients["python"].date == "2026-11-27"
    part.clients["python"].version = "1.1"
    with pytest.raises(ValueError, match=r"no whole run of Python SDK 1\.1"):
        keep(part, file, whole=False)


def test_a_call_without_a_trouble_is_a_control() -> None:
    assert failed_controls(report(seen("none", got="result"), seen())) == []
    failed = report(seen("none"), seen("none", client="resuming", got="result", bills=2))
    assert failed_controls(failed) == [
        "python with F, modern, none",
        "resuming with F, modern, none",
    ]
    busy = report(seen("none", got="result", seconds=30))
    assert failed_controls(busy) == ["python with F, modern, none"]


def test_a_result_that_says_something_else_is_no_result() -> None:
    runs = [
        seen("none", got="result", says="sunny"),
        seen("502", got="result", says="sunny"),
        seen(got="result", says="Connection closed"),
        seen("unknown-result-type", got="result", says="done", audits=None, bills=None),
        seen("stdio", got="result", says="of another place", requests=None),
    ]
    assert failed_controls(report(*runs)) == ["python with F, modern, cut-final"]


def test_a_client_that_no_trouble_is_for_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def run(to_play: Sequence[Cell], tell: Any, finish: Any) -> list[Seen]:
        assert {cell.peer.name for cell in to_play} == {"python"}
        finish(to_play[0].peer, [seen("bad-answer")])
        return [seen("bad-answer")]

    monkeypatch.setattr(command, "run", run)
    monkeypatch.setattr(command, "build", print)
    names = "openai-agents,python"  # OpenAI Agents cannot ask its user, so it cannot be played
    assert command.main(["--only", "bad-answer", "--clients", names, "--server", "F"]) == 0
    shown = capsys.readouterr()
    assert "Python SDK" in shown.out
    assert "kept as it was" in shown.err


def test_an_engine_calls_again_by_itself_and_the_default_charges_once() -> None:
    kept = runs(read())
    for server, counts in (("", "2/2"), ("/default", "1/1")):
        shown = "\n".join(kept[f"clients/temporal/modern/cut-final{server}"])
        assert shown.count("begins a call") == 2
        assert f"audits/bills: {counts}" in shown


def test_every_run_that_is_kept_has_an_address() -> None:
    kept = read()
    called = {(seen.client, seen.era, seen.trouble, seen.server) for seen in kept.seen}
    assert len(runs(kept)) == len(called)
