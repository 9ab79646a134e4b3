"""Tests of `check`: a stranger's file, module or running server gets the same review."""

import json
import re
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.review.bench.deployments.remote import Remote
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.bench.messages import HUNG, Era, Reply
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario, calling
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.bench.world import ledger_file
from mrtr_options.review.check import plan, review, targets
from mrtr_options.review.check.breaches import GIVE_UP
from mrtr_options.review.check.cases import systematic
from mrtr_options.review.explore.counterexamples import counterexamples
from mrtr_options.review.judge import grid
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.contract import violations
from mrtr_options.terminal import run as run_command
from mrtr_options.tool.catalogue import all_options, option_named
from mrtr_options.tool.settings import Settings
from mrtr_options.tool.weather import REPORTS, SqliteLedger
from tests.commands import refusal
from tests.evidence import every
from tests.sending import instance, over_http
from tests.test_serving import served

CONTRACT = Path(__file__).parents[2] / "docs" / "CONTRACT.md"

FROM_THE_CONTRACT = (Path(__file__).parent / "corpus" / "hmac_json.py").read_text(encoding="utf-8")
"""A proposal that uses only those names of this project that are on the contract page."""


def stranger(folder: Path, old: str = "", new: str = "", source: str = FROM_THE_CONTRACT) -> Path:
    assert not old or source.count(old) == 1
    path = folder / "stranger.py"
    path.write_text(source.replace(old, new) if old else source, encoding="utf-8")
    return path


def checked(
    file: Path, capsys: pytest.CaptureFixture[str], *only: str, more: Sequence[str] = ()
) -> tuple[int, str]:
    try:
        code = main(["check", str(file), *more, *(("--only", ",".join(only)) if only else ())])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    return code, "".join(capsys.readouterr())


@pytest.mark.slow
def test_an_option_breaks_nothing_and_is_nearest_to_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    only = "clean-tokyo,lost-final,task-clean"
    assert main(["check", "F", "--json", "--only", only, "--faults", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert report["broken"] == []
    assert {"runs": 1, "why": "with a task: no client was handed one"} in report["left_out"]
    assert report["nearest"] == {"option": "F", "differs": []}
    assert report["compared"][0]["guarded_and_named"] == "charged once and told"
    found = report["explored"]["witnesses"]
    assert {risk["anomaly"] for risk in report["hurts"]} == set(found)
    assert (
        anyio.run(counterexamples, subject_named("F"), calling(), 1).as_json()["witnesses"] == found
    )


KEPT = CONTRACT.parent / "data" / "explored.json"


OF_MUTANTS_ALONE = {
    "result without effect",
    "new question not asked",
    "misrouted answer",
    "ignored answer",
    "expired state accepted",
    "two responses to one request",
    "never ends",
}
"""The anomalies that no subject of this package shows under one fault."""


def test_who_is_spared_an_anomaly_does_not_show_it_where_another_does() -> None:
    explored = json.loads(KEPT.read_text(encoding="utf-8"))
    found = {row["subject"]: row["witnesses"] for row in explored if row["policy"] == "resends"}
    for anomaly in ANOMALIES:
        sets = {subject: shown.get(anomaly.name, []) for subject, shown in found.items()}
        harmed = {subject for subject in sets if min(map(_size, sets[subject]), default=2) < 2}
        assert bool(harmed) == (anomaly.name not in OF_MUTANTS_ALONE), anomaly.name
        assert anomaly.spared, anomaly.name
        assert {*anomaly.spared} <= {*found} - harmed, anomaly.name


def _size(faults: str) -> int:
    return len(faults.split())


LOCATION = "    location = location_of(params)\n"
FIRST = '    location = (params.arguments or {}).get("location")\n'
DECLINED = "        if choice is None:\n"
BILL = '    await anyio.to_thread.run_sync(write, "bill", place)\n'
FAILS = "    raise OSError('no')"
TELLS_ERA = "            raise OSError(ctx.protocol_version)"
LOCKS = """
            call_tool.db = sqlite3.connect(LEDGER, isolation_level=None)
            call_tool.db.execute("BEGIN EXCLUSIVE")
"""
BUSY = "the server holds the lock of ledger.sqlite for more than 0.5 seconds between requests"
DIED = ("every-request-is-answered", "exit code 3")


class Mistake(NamedTuple):
    """A line that goes wrong, and what `check` says of it.

    Attributes:
        behind: The text of the proposal behind which the line stands.
        line: The line.
        only: The cases to run besides the clean call; empty for all.
        code: The exit code.
        says: Texts that are printed; the first one is the broken rule if the exit code is 1.
    """

    behind: str
    line: str
    only: str
    code: int
    says: Sequence[str]


MISTAKES: list[tuple[str, str, str, int, Sequence[str]]] = [
    (FIRST, FAILS, "", 2, ["OSError: no", "the first call of stranger.py raises"]),
    (FIRST, "    raise SystemExit(3)", "", 2, ["ended with exit code 3 at the first call"]),
    (FIRST, "    write = lambda *args: None", "", 2, ["none of its effects is in the ledger"]),
    (DECLINED, LOCKS, "decline,clean-springfield", 2, [BUSY]),
    (FIRST, f"    if params.request_state:\n{LOCKS}", "users-at-once", 2, [BUSY]),
    (DECLINED, "            raise SystemExit(3)", "decline", 1, DIED),
    (DECLINED, "            os._exit(3)", "decline", 1, DIED),
    (BILL, "    write('mail', 'x')", "clean-springfield", 1, ["no-other-effects", "mail"]),
    (BILL, FAILS, "clean-springfield", 1, ["the-report-is-the-pages", "OSError"]),
    # The error of an old client is left out of a breach that is about modern clients.
    (DECLINED, TELLS_ERA, "decline", 1, ["decline-ends-the-call", "what its code raised:\n"]),
]


@pytest.mark.slow
@pytest.mark.parametrize("mistake", [Mistake(*each) for each in MISTAKES])
def test_a_line_that_goes_wrong_is_told_and_judged_where_there_is_something_to_judge(
    mistake: Mistake,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_SECONDS", 0.5)
    file = stranger(tmp_path, mistake.behind, f"{mistake.behind}{mistake.line}\n")
    only = ("clean-tokyo", mistake.only) if mistake.only else ()
    code, printed = checked(file, capsys, *only)
    assert code == mistake.code
    assert [each for each in mistake.says if each not in printed] == []
    assert (f"breaks {mistake.says[0]}: " in printed) == (code == 1)
    assert "mrtr_options/" not in printed
    assert "to make breaches smaller" not in " ".join(printed.split())


@pytest.mark.slow
def test_a_proposal_that_hangs_names_its_line_and_is_not_played_to_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hangs = "    if 'Spring' in str(params.arguments): await anyio.sleep_forever()\n"
    file = stranger(tmp_path, FIRST, hangs + FIRST)
    only = ("clean-tokyo", "clean-springfield", "lost-first", "failover", "restart")
    code, printed = checked(file, capsys, *only, more=("--hang-seconds", "1"))
    assert f"since in {GIVE_UP} others a request had no response" in " ".join(printed.split())
    assert code == 1
    assert "breaks every-request-is-answered" in printed
    assert re.search(r"it is at line \d+, in call_tool: if 'Spring'", printed)
    assert "most similar option" not in printed
    _, printed = checked(file, capsys, "every-place", "crowd", more=("--hang-seconds", "1"))
    assert "left out: 1 run of over 1,000 calls" in printed


NO_QUESTIONS = """
import os, sqlite3
from mcp.server import MCPServer

server = MCPServer("weather")

@server.tool()
async def weather(location: str) -> str:
    with sqlite3.connect(os.environ["MRTR_LEDGER"]) as db:
        rows = [("audit", location), ("bill", location)]
        db.executemany("INSERT INTO effects (kind, subject, at) VALUES (?, ?, '')", rows)
    return f"{location}: sunny"
"""


DB = "sqlite3.connect(LEDGER, timeout=2)"
OPENED = "vars(write)[time.time()] = open(os.devnull)"
PUSH = "    try:\n        answer = await ctx.session.elicit_form("
MISFIT = '        raise invalid(f"The answer to {name} does not fit.")'
REFUSED = "    except ValueError:\n"
ENDED = "        if choice is None:\n"
MEMORY = "        vars(unseal)[str(len(vars(unseal)))] = bytearray(2**19)\n"
A_THREAD = """            if answer["action"] == "cancel":
                import threading
                threading.Thread(target=threading.Event().wait, daemon=True).start()
"""
BILLED = '    await anyio.to_thread.run_sync(write, "bill", place)\n'
SLOT = (
    '    slots = vars(text).setdefault("slots", anyio.Semaphore(20))\n    await slots.acquire()\n'
)
NO_STATE = "left out: 1 run with a state of another server: no question came with a state"


KEPT_OPEN = "breaks nothing-is-kept"
CARELESS: dict[str, tuple[str, str, str, str]] = {
    "asks nothing": ("", "", NO_QUESTIONS, NO_STATE),
    "correct": ("", "", FROM_THE_CONTRACT, ""),
    "empty key": (
        '.split(",") if key]',
        '.split(",") + [""]]',
        FROM_THE_CONTRACT,
        "breaks state-is-genuine",
    ),
    "database at each effect": (
        f"closing({DB}) as db, db:",
        f"vars(write).setdefault(time.time(), {DB}) as db:",
        FROM_THE_CONTRACT,
        KEPT_OPEN,
    ),
    "file at each push": (PUSH, f"    {OPENED}\n{PUSH}", FROM_THE_CONTRACT, KEPT_OPEN),
    "file at each misfit": (MISFIT, f"        {OPENED}\n{MISFIT}", FROM_THE_CONTRACT, KEPT_OPEN),
    "a pool of 40 files": (
        MISFIT,
        f"        if len(vars(write)) < 40:\n            {OPENED}\n{MISFIT}",
        FROM_THE_CONTRACT,
        "",
    ),
    "memory at each refusal": (REFUSED, REFUSED + MEMORY, FROM_THE_CONTRACT, KEPT_OPEN),
    "slot at each failed bill": (
        BILLED,
        f"{SLOT}{BILLED}    slots.release()\n",
        FROM_THE_CONTRACT,
        KEPT_OPEN,
    ),
    "thread at each cancel": (ENDED, f"{ENDED}{A_THREAD}", FROM_THE_CONTRACT, KEPT_OPEN),
}
"""Old text, new text, proposal, and a text that is printed."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", every("guessed keys, and what is kept", CARELESS, ("empty key", "file at each push"))
)
def test_a_key_that_anybody_guesses_and_a_file_that_stays_open_are_found(
    change: tuple[str, str, str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    *edit, says = change
    file = stranger(tmp_path, *edit)
    no_cases: list[Scenario] = []
    monkeypatch.setattr(plan, "schedules_of", lambda subject: (no_cases, []))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    monkeypatch.setattr(plan, "systematic", lambda: no_cases)
    if says == KEPT_OPEN:  # and in which era it stays open
        monkeypatch.setattr(review, "ERAS", ("legacy",) if PUSH in change else ("modern",))
    elif says.startswith("breaks"):  # nothing stays open
        monkeypatch.setattr(review, "ERAS", ())
    code, printed = checked(file, capsys, more=("--drawn", "0", "--faults", "0"))
    # A server that asks nothing breaks the contract in the clean call, which runs first.
    breaks = "breaks" in says or NO_QUESTIONS in change
    assert code == int(breaks), printed
    assert ("breaks" in printed) == breaks, printed
    assert says in printed


def test_a_slow_server_gets_parts_of_the_cases_that_keep_the_contract_in_its_seconds() -> None:
    pace = plan.Pace(0.5)
    cases = systematic()
    chosen, parts, left_out = pace.within(cases, plan.CASE_SECONDS)
    requests = [plan.requests_of(each.script) for each in chosen]
    assert max(requests) <= plan.MOST_REQUESTS
    assert pace.seconds * sum(requests) <= plan.CASE_SECONDS
    assert parts == len([each for each in chosen if each not in cases]) > 5
    assert left_out == len(cases) - len(chosen)
    calls = {call for step in plan.part_of(cases[0]).script for call in step.calls}
    assert 9 < len(calls) <= plan.MOST_CALLS
    for each in chosen:
        assert violations(anyio.run(run, subject_named("E"), each)) == [], each.name
    assert plan.Pace().within(cases, 0) == (cases, 0, 0)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("notes.txt", "notes.txt is not a Python file"),
        ("shelf", "shelf is a folder"),
        ("shelf.nothing", "'shelf.nothing' is not an option, a file, a module or a URL"),
        ("nothing.tool", "'nothing.tool' is not an option, a file, a module or a URL"),
        ("http://127.0.0.1:1/mcp,127.0.0.1:2 --ledger it", "'127.0.0.1:2' is not a URL"),
    ],
)
def test_a_module_is_found_without_running_its_package_and_what_is_none_is_refused(
    target: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("shelf", "runs"):
        (tmp_path / name).mkdir()
    (tmp_path / "runs" / "__init__.py").write_text("raise RuntimeError", encoding="utf-8")
    for name in ("notes.txt", "runs/tool.py"):
        (tmp_path / name).touch()
    assert targets.file_of("runs.tool") == tmp_path / "runs" / "tool.py"
    assert says in refusal(main, ["check", *target.split()])


@pytest.mark.parametrize(
    ("first", "says"),
    [
        (Reply(nothing=HUNG), "the first call of my_server.py has no response after 7 seconds"),
        (Reply(code=-32601, message="no such method"), "takes no tool calls: no such method"),
    ],
)
def test_a_server_whose_first_call_gives_nothing_to_judge_is_refused(
    first: Reply, says: str
) -> None:
    async def play(scenario: Scenario) -> History:
        return History("?", scenario, "one", 1, (Received(1, 1, 0, 1, 0, first),))

    with pytest.raises(targets.CannotJudge, match=says):
        anyio.run(targets.check_first_call, play, "my_server.py", 7.0)


def test_instances_that_speak_no_era_in_common_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    eras: dict[str, list[Era]] = {"http://old/mcp": ["legacy"], "http://new/mcp": ["modern"]}

    async def eras_of(url: str, hang_seconds: float) -> list[Era]:
        return eras[url]

    monkeypatch.setattr(targets.remote, "eras_of", eras_of)
    said = refusal(main, ["check", ",".join(eras), "--ledger", str(tmp_path / "ledger.sqlite")])
    assert "these instances speak no era in common" in said


def test_a_server_without_the_tool_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stranger(tmp_path, "def weather", "def book_table", NO_QUESTIONS)
    code, printed = checked(file, capsys)
    assert code == 2
    assert printed == (
        "mrtr-options: stranger.py has no tool 'weather' to be reviewed, only book_table; "
        "check --init my_option.py writes the tool that check judges (docs/CONTRACT.md); "
        "for a tool of your own, new writes a test\n"
    )


@pytest.mark.slow
def test_the_file_that_init_writes_is_the_pages_and_passes_and_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my_option.py"
    assert main(["check", "--init", str(file)]) == 0
    assert f"```python\n{file.read_text(encoding='utf-8')}```\n" in CONTRACT.read_text(
        encoding="utf-8"
    )
    code, printed = checked(
        file, capsys, "clean-springfield", "bad-answer", "decline", "failed-bill"
    )
    assert code == 0
    assert "Keeps the contract." in printed
    file.write_text("mine", encoding="utf-8")
    for name in (file, tmp_path / "no_folder" / "my_option.py", tmp_path / "my_option"):
        refusal(main, ["check", "--init", str(name)])
    assert file.read_text(encoding="utf-8") == "mine"


@pytest.mark.slow
def test_a_running_server_gets_the_verdicts_that_it_gets_in_memory(tmp_path: Path) -> None:
    slugs = ("clean-tokyo", "lost-final", "failed-bill", "decline", "expired", "restart")
    ledger = SqliteLedger(tmp_path / "ledger.sqlite")

    async def review() -> targets.Report:
        async with over_http(instance("F", Settings(ledger))) as url:
            return await targets.check_url([url], ledger.path, targets.Extent(only=slugs))

    report = anyio.run(review)
    remote = Remote(["http://127.0.0.1:1/mcp"], ledger)
    playable = [SCHEDULES[slug] for slug in slugs if remote.cannot(named(slug).on_one()) is None]
    cells = grid.cells([Subject(all_options()["F"])], schedules=playable, deployments=("one",))
    there, here = (
        {(seen.schedule, seen.era): (seen.verdict, seen.cell) for seen in some}
        for some in (report.observations, anyio.run(grid.run, cells))
    )
    assert there == here
    assert report.breaches == []
    (not_ours,) = (
        runs for why, runs in report.left_out.items() if "need the server to restart" in why
    )
    assert not_ours == 2


def test_a_relative_path_of_a_proposal_is_in_a_folder_of_the_review_and_not_where_its_author_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (CONTRACT.parent / "results" / "CONTRACT_RULES.md").read_text(encoding="utf-8")
    (guarded,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert 'SqliteStore("rounds.sqlite")' in guarded
    Path("my_server.py").write_text(guarded, encoding="utf-8")
    for _ in range(2):  # the first one moves the clock
        assert (
            main(["check", "my_server.py", "--only", "clean-tokyo,expired", "--faults", "0"]) == 0
        )
        assert main(["play", "my_server.py"]) == 0
        assert "completed" in capsys.readouterr().out
    assert [each.name for each in tmp_path.iterdir() if not each.is_dir()] == ["my_server.py"]


@pytest.mark.slow
def test_a_running_server_that_dies_half_way_is_broken_and_one_with_another_ledger_is_not_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    stop = "    if location == 'Springfield':\n        __import__('os')._exit(5)\n"
    dies = stranger(tmp_path, LOCATION, LOCATION + stop, all_options()["F"].source)
    only = ["--only", "clean-tokyo,decline,clean-springfield", "--ledger"]
    with served(str(dies), "--ledger", str(ledger)) as server:
        said = refusal(main, ["check", server.url, *only, str(tmp_path / "other.sqlite")])
        assert "none of its effects is in the ledger" in said
        assert main(["check", server.url, *only, str(ledger)]) == 1
    printed = capsys.readouterr().out
    assert "breaks every-request-is-answered" in printed
    assert "left out: " in printed


def test_the_contract_page_has_the_tools_table_and_the_ledgers(tmp_path: Path) -> None:
    page = CONTRACT.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+, \w+) \| (\d+ \| [\w ]+) \|$", page, re.MULTILINE))
    assert rows == {place: f"{today.celsius} | {today.sky}" for place, today in REPORTS.items()}
    schema = re.search(r"```sql\n(.*?)```", page, re.DOTALL)
    assert schema is not None
    SqliteLedger(tmp_path / "ours")
    columns: list[list[Any]] = []
    for name in ("ours", "page"):
        with closing(sqlite3.connect(tmp_path / name)) as db:
            if name == "page":
                db.executescript(schema[1])
            columns.append(db.execute("PRAGMA table_info(effects)").fetchall())
    assert columns[0] == columns[1]


LATER = f"{LOCATION}    if params.input_responses:\n        __import__('os')._exit(3)\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import os\n\nos._exit(0)\n", "exit code 0 while stranger.py was loading"),
        (
            option_named("E").source.replace(LOCATION, LATER),
            "the process ended with exit code 3 at a later request to stranger.py",
        ),
    ],
    ids=["loading", "later"],
)
def test_a_file_that_ends_its_process_does_not_end_the_command_that_plays_it(
    source: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = stranger(tmp_path, source=source)
    with pytest.raises(SystemExit) as stopped:
        run_command(lambda: main(["play", str(file)]))
    assert stopped.value.code == 2
    assert says in capsys.readouterr().err
