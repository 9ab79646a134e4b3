"""Tests of the command line: the tour, refusals, a missing environment, a non-UTF-8 terminal."""

import errno
import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import Mock

import pytest

from documents.explored import FILE
from mrtr_options.__main__ import main
from mrtr_options.demo import tour
from mrtr_options.review.bench.world.starting import program
from mrtr_options.terminal import run
from mrtr_options.tool import catalogue
from mrtr_options.tool.catalogue import all_options, option_at
from tests.bounds import KEY
from tests.commands import printed, python, refusal


@pytest.mark.slow
def test_the_tour_has_the_explored_bills_of_every_option() -> None:
    rows = json.loads(printed(main, "--json"))
    assert [row["option"] for row in rows] == list(all_options())
    twice = {
        (row["subject"], row["policy"])
        for row in json.loads(FILE.read_text(encoding="utf-8"))
        if "lost3" in row["witnesses"].get("charged twice", ())
    }
    for row in rows:
        letter = row["option"]
        assert row["clean"]["bill"] == 1
        assert row["resends"]["bill"] == (2 if (letter, "resends") in twice else 1)
        assert row["calls_again"]["bill"] == (2 if (letter, "calls again") in twice else 1)


@pytest.mark.parametrize("file", ["locked/mine.py", None])
def test_a_file_that_may_not_be_read_is_refused_and_another_failure_is_not(
    file: str | None,
) -> None:
    def fail() -> int:
        raise PermissionError(errno.EACCES, "Permission denied", file)

    with pytest.raises(PermissionError if file is None else SystemExit):
        run(fail)


def test_a_file_in_the_tour_that_does_not_load_is_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "option_z_broken.py"
    broken.write_text("raise ValueError('two\\nlines')", encoding="utf-8")
    monkeypatch.setattr(tour, "all_options", lambda: {"Z": option_at(broken)})
    assert "option_z_broken.py does not import: ValueError: two lines" in refusal(main, [])


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["checq"], "there is no command 'checq'; did you mean check?"),
        (["diff", "E", "nofile.py"], "there is no file nofile.py"),
        (["check", ""], "an argument is empty"),
        (["play", "E", "--faults", "lost9"], "lost9 cannot happen: this call has 3 rounds"),
        (["play", "E", "--faults", "losst3"], "did you mean lost?"),
        (["play", "E", "--faults", "failover2", "--fleet", "one"], "failover needs two instances"),
        (["check", "E", "--only", "nosuch"], "no schedule 'nosuch'"),
        (["matrix", "--options", "E,9"], "there is no option '9'"),
        (["matrix", "--only", "task-cancel", "--options", "L"], "nothing of this can be played"),
        (["serve", "E", "--http", "65536"], "cannot listen on 127.0.0.1:65536"),
        (["check", "http://127.0.0.1:9/mcp"], "a running server needs --ledger FILE"),
        (["check", "f.py", "--html", "no/such/folder/report.html"], "a folder that is there"),
        (["check", "f.py", "--hang-seconds", "nan"], "takes a number of seconds over 0"),
        (["check"], "check takes one target"),
        (["check", "f.py", "--init", "g.py"], "check takes one target"),
        (["check", "f.py", "--ledger", "ledger.sqlite"], "--ledger goes with a URL"),
        (["check", "http://here/mcp", "--words", "other"], "--also and --words go with a file"),
        (["check", "f.py", "--drawn", "-1"], "--drawn takes a number of runs"),
        (["check", "f.py", "--faults", "5"], "--faults takes a number from 0 to 4"),
        (["explore", "--faults", "-1"], "--faults takes a number from 0 to 4"),
        (["explore", "lost3"], "lost3 is a fault; write python -m mrtr_options play E --faults"),
        (["schedules", "fork"], "fork is a schedule; write python -m mrtr_options play E fork"),
        (["schedules", "E"], "subjects are played with --run"),
        (["diff", "E"], "diff takes two options"),
        (["play", "x" * 300 + ".py"], "xx.py: File name too long"),
        (["diff", "--stat", "--all"], "diff --stat counts author code"),
        (["diff", "E", "examples/"], "examples/ is a folder; name a Python file"),
        (["matrix", "--options", ","], "--options names no option"),
        (["matrix", "--options", f"E,{__file__}"], "the matrix has the options of the deck"),
        (["matrix", "--deployment", "three"], "'three' is not a deployment"),
        (["play", "forck"], "there is no option or schedule 'forck'; did you mean fork?"),
        (["play", "E", "fork", "lost-final"], "fork is a schedule; name one, after the options"),
        (["play", "E", "fork", "--client", "stops"], "a schedule has its own client"),
        (["play", "E", "fork", "--fleet", "free"], "a schedule has its own fleet"),
        (["--json", "doubtful", "nofile.sqlite"], "doubtful prints no JSON; leave out --json"),
        (["play", "E", "task-cancel", "--era", "legacy"], "has no steps for a legacy client"),
        (["play", "E", "--faults", "early2", "--era", "legacy"], "a legacy call is one request"),
        (["play", "E", "F", "--by-hand"], "--by-hand takes one option"),
        (["play", "E", "--by-hand", "--words", "other"], "a call by hand has its own words"),
        (["play", "+guard"], "'+guard' names no option"),
        (["play", "F+guard+guard"], "names a wrapper twice"),
        (["play", "F+guar"], "there is no wrapper 'guar'; did you mean guard?"),
        (["play", "F+named"], "it is the guard that names calls"),
        (["play", "F+temporal"], "keeps no calls that Temporal could keep"),
        (["play", "http://here/mcp"], "is a URL, which only check takes"),
        (["play", "E", "--fault", "lost3"], "unrecognized arguments: --fault lost3"),
        (["serve", "F+key", "--http", "0"], "call keys are sent by a client"),
        (["serve", "F+guard+named", "--http", "0"], "named calls need a server that knows"),
        (["serve", "F", "--http", "0", "--rounds", "r.sqlite"], "--rounds is the file of a guard"),
        (["serve", "F", "--http", "0", "--ledger", ":memory:"], "a ledger in SQLite is a file"),
        (["doubtful", "nofile.sqlite"], "there is no store nofile.sqlite"),
        (["doubtful", __file__, "--settle", "1"], "give --settle ID with --result TEXT"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_in_one_line(argv: list[str], why: str) -> None:
    assert why in refusal(main, argv)


HERE = str(Path(__file__).parent)
AWAY = "cannot use the database in MRTR_DATABASE_URL: "


@pytest.mark.parametrize(
    ("letter", "variable", "value", "why"),
    [
        ("E", "MRTR_LEDGER", HERE, f"cannot use {HERE} as a ledger"),
        (
            "E",
            "MRTR_STATE_KEYS",
            f"{KEY},tails",
            "key 2 of MRTR_STATE_KEYS has 5 bytes, and needs 32",
        ),
        ("E", "MRTR_DATABASE_URL", "mysql://me:hush@here/calls", "must look like sqlite:///FILE"),
        ("E", "MRTR_DATABASE_URL", "temporal://here:hush", "must look like sqlite:///FILE"),
        ("L", "MRTR_DATABASE_URL", f"sqlite:///{__file__}", f"{AWAY}file is not a database"),
        ("L", "MRTR_DATABASE_URL", "postgresql://me:hush@127.0.0.1:9/calls", AWAY),
    ],
)
def test_an_environment_that_cannot_be_used_is_refused_in_one_line_that_shows_no_password(
    letter: str, variable: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    said = refusal(main, ["serve", letter, "--http", "0"])
    assert why in said
    assert "hush" not in said
    assert KEY not in said


ENGINE_AWAY = {"MRTR_DATABASE_URL": "temporal://127.0.0.1:9"}
IS_AWAY = "no Temporal server answers at 127.0.0.1:9 for the namespace default"


@pytest.mark.skipif(find_spec("temporalio") is None, reason="needs the extra 'fleet'")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_that_waits_for_its_engine(number: signal.Signals) -> None:
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "mrtr_options", "serve", "L"]
    env = os.environ | ENGINE_AWAY
    with program([*argv, "--http", "0"], env=env, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        assert server.stderr.readline() == f"{IS_AWAY}; waiting for it\n"
        server.send_signal(number)
        assert server.stderr.read() == ""
        assert server.wait() == (130 if number == signal.SIGINT else -number)


def test_an_option_that_lacks_its_extra_is_named_with_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalogue, "find_spec", Mock(return_value=None))
    said = refusal(main, ["matrix", "--options", "K", "--only", "clean-tokyo"])
    assert "option K needs the extra 'durable': pip install" in said
    assert main(["matrix", "--only", "clean-tokyo", "--deployment", "one", "--era", "modern"]) == 0
    assert "left out: option L needs the extra 'durable'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["play"], ["explore", "--faults", "0"]])
def test_what_a_file_prints_is_no_part_of_a_commands_json(
    command: list[str], tmp_path: Path
) -> None:
    main(["check", "--init", str(tmp_path / "mine.py")])
    with (tmp_path / "mine.py").open("a", encoding="utf-8") as file:
        file.write("print('hello')\n")
    assert json.loads(printed(main, *command, str(tmp_path / "mine.py"), "--json"))


def test_help_lists_the_commands_and_imports_no_sdk() -> None:
    code = (
        "import sys, mrtr_options.__main__ as program\n"
        "try: program.main(['--help'])\n"
        "finally: assert not {'mcp', 'mcp_types'} & set(sys.modules)"
    )
    ran = python("-c", code)
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert "diff " in ran.stdout
    assert "serve " in ran.stdout


@pytest.mark.skipif(find_spec("temporalio") is None, reason="needs the extra 'fleet'")
def test_an_engine_that_stays_away_is_named_once_and_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from mrtr_options.sdk.durable import fleet

    monkeypatch.setenv("MRTR_DATABASE_URL", ENGINE_AWAY["MRTR_DATABASE_URL"])
    monkeypatch.setattr(fleet, "WAIT_SECONDS", 0.5)
    monkeypatch.setattr(fleet, "AGAIN_SECONDS", 0.02)
    said = refusal(main, ["serve", "L", "--http", "0"])
    assert said.endswith(f"in MRTR_DATABASE_URL: {IS_AWAY}\n")
    assert caplog.messages == [f"{IS_AWAY}; waiting for it"]


WITHOUT_THE_REVIEW = """
import sys

sys.modules["time_machine"] = None
from mrtr_options import option_f_once, sdk
from mrtr_options.__main__ import main

sys.exit(main(["check"]))
"""
WITHOUT_AN_ENGINE = (
    "import runpy, sys; sys.modules['dbos'] = None; runpy.run_module('{}', run_name='__main__')"
)
ACTIVATE = "the environment is not active: source .venv/bin/activate (make demo makes it)"
REVIEW = "mrtr-options: the review needs time-machine: pip install 'mrtr-options[review]'\n"
DURABLE = "mrtr-options: this needs the extra 'durable': pip install '.[durable]' in a checkout\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-S", "-m", "mrtr_options"], ACTIVATE),
        (["-S", "-m", "mrtr_options.option_f_once"], ACTIVATE),
        (["-c", WITHOUT_THE_REVIEW], REVIEW),
        (["-c", WITHOUT_AN_ENGINE.format("mrtr_options.option_k_task")], DURABLE),
        (["-c", WITHOUT_AN_ENGINE.format("mrtr_options.option_l_durable")], DURABLE),
        (["-c", WITHOUT_AN_ENGINE.format("examples.index_directory")], DURABLE),
    ],
)
def test_what_is_missing_is_one_line_with_what_gets_it(arguments: list[str], says: str) -> None:
    ran = python(*arguments)
    assert ran.returncode == (1 if says == ACTIVATE else 2)
    assert ran.stdout == ""
    assert says in ran.stderr
    assert ran.stderr.count("\n") == 1


def test_a_terminal_without_utf_8_gets_ascii() -> None:
    ran = python(
        *("-m", "scoreboard", "--run", "servers/go-sdk/state-rewritten"),
        PYTHONIOENCODING="ascii",
    )
    assert ran.returncode == 0
    assert ran.stderr == ""
    assert "gets the text 'Springfield, Missouri: 79 F, sunny.'" in ran.stdout
