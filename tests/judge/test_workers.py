"""Tests of explorations in worker processes: they give the same result, and can be resumed."""

import json
import signal
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from mrtr_options.__main__ import main
from mrtr_options.review.bench.faults import parse
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.bench.world.loop import swift
from mrtr_options.review.explore import pool, stored
from mrtr_options.review.explore.counterexamples import Explored, Made, counterexamples
from mrtr_options.review.explore.stored import Share, StoredShares
from mrtr_options.review.explore.workers import explore_all
from tests.commands import python, refusal
from tests.evidence import every

CALLED = subject_named("E"), calling("Tokyo", era="legacy")
SHARE = Share(*CALLED, 2, parse("lost1 twice1"))
FOUND = Explored(*CALLED, 2, 40, {"call lost": [parse("lost1 restart2")]}, {parse("lost1"): "what"})


def test_ctrl_c_while_the_processes_start_is_for_the_command_alone(tmp_path: Path) -> None:
    (tmp_path / "told.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = (
        "from mrtr_options.review.explore.pool import do_task, pool\n"
        "with pool('told') as processes: print(processes.submit(do_task, abs, -1).result())"
    )
    ran = python("-c", code, PYTHONPATH=str(tmp_path))
    assert ran.returncode == 0
    assert ran.stdout == "1\n"
    assert ran.stderr == ""


@pytest.mark.parametrize(
    "bound", every("explorations in shares", {"one": 1, "two": 2}, also=("one",))
)
def test_shares_together_are_the_exploration(bound: int, tmp_path: Path) -> None:
    file = tmp_path / "explored.jsonl"
    calls = {
        CALLED: bound,
        (CALLED[0], calling("Tokyo", policy="calls again", era="legacy")): bound,
    }
    every_found = {(found.subject, found.scenario): found for found in explore_all(calls, file)}
    for called, found in every_found.items():
        whole = anyio.run(counterexamples, *called, bound, backend_options=swift())
        assert found.histories == whole.histories
        assert found.counterexamples.keys() == whole.counterexamples.keys()
        for name, sets in whole.counterexamples.items():
            assert sorted(found.counterexamples[name]) == sorted(sets)

    told: list[str] = []
    again = explore_all(calls, file, lambda done, of, name: told.append(name))
    assert {(found.subject, found.scenario): found for found in again} == every_found
    assert told == ["E, resends and calls again, no fault"]


def test_a_run_is_made_once_for_clients_that_make_the_same_choices_or_end_it() -> None:
    made: Made = {}
    for policy in ("calls again", "resends", "stops"):
        called = CALLED[0], calling("Tokyo", policy=policy)
        found = anyio.run(partial(counterexamples, *called, 1, made=made), backend_options=swift())
        assert found == anyio.run(counterexamples, *called, 1, backend_options=swift())
    runs = {faults: len(made[parse(faults)]) for faults in ("twice1", "lost1", "lost2")}
    assert runs == {"twice1": 1, "lost1": 1, "lost2": 2}


@pytest.mark.parametrize("faults", ["lost1", "crash2", "down@bill3", "other2 lost3"])
def test_the_run_of_a_client_that_stops_is_the_beginning_of_another_ones(faults: str) -> None:
    def play(policy: str) -> History:
        call = calling(policy=policy).under(parse(faults))
        return anyio.run(run, CALLED[0], call, backend_options=swift())

    stopped = play("stops")
    began = play("calls again").with_client(POLICIES["stops"])
    assert began is not None
    assert began.attempts == stopped.attempts
    assert began.choices == stopped.choices
    assert began.gave_up == stopped.gave_up
    assert [*map(type, began.events)] == [*map(type, stopped.events)]


def test_half_a_line_is_cut_off_and_what_is_above_it_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "explored.jsonl"
    StoredShares(file).store(SHARE, FOUND)
    with file.open("a") as half:
        half.write('{"share": "')
    shares = StoredShares(file)
    assert shares.load(SHARE) == FOUND
    other = Share(*CALLED, 2, parse("twice1"))
    assert shares.load(other) is None
    shares.store(other, FOUND)
    assert StoredShares(file).load(other) == FOUND


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("weather", "does not hold saved explorations"),
        ("[]\n", "does not hold saved explorations"),
        (json.dumps({"code": "other"}) + '\n{"share": "', "was started with other code"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(
    text: str, says: str, tmp_path: Path
) -> None:
    file = tmp_path / "explored.jsonl"
    file.write_text(text)
    assert says in refusal(main, ["explore", "F", "--resume", str(file)])
    assert file.read_text() == text


def test_a_share_of_a_namesake_file_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "explored.jsonl"
    StoredShares(file).store(SHARE, FOUND)
    monkeypatch.setattr(stored, "next_versions", str)
    assert StoredShares(file).load(SHARE) is None


def test_what_is_stored_is_not_for_an_option_with_other_guarantees(tmp_path: Path) -> None:
    file = tmp_path / "explored.jsonl"
    StoredShares(file).store(SHARE, FOUND)
    other = replace(SHARE.subject, option=replace(SHARE.subject.option, guarantees=None))
    assert StoredShares(file).load(replace(SHARE, subject=other)) is None


def test_an_interrupted_process_of_the_pool_begins_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "_interrupted", threading.Event())
    begun: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        pool.do_task(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        pool.do_task(begun.append, "the next")
    assert begun == []
