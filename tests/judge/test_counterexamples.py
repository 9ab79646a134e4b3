"""Tests of exploring: the anomalies under every set of faults up to a bound, none left out."""

import time
from dataclasses import replace
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path
from unittest.mock import Mock

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mrtr_options.__main__ import main
from mrtr_options.review.bench.faults import ASKED, EXPLORED, PLAYABLE, Fault, NoFault, parse
from mrtr_options.review.bench.faults.kinds import rounds_of
from mrtr_options.review.bench.history import History, Received
from mrtr_options.review.bench.policies import POLICIES, Loss, LossPolicy, Next
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario, Words, calling
from mrtr_options.review.bench.schedules import SCHEDULES, name_of
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.bench.world.loop import swift
from mrtr_options.review.bench.world.wrappers import WAIT_SECONDS
from mrtr_options.review.explore import explore as every_set
from mrtr_options.review.explore import possible
from mrtr_options.review.explore.counterexamples import (
    Explored,
    counterexamples,
    is_part,
    play_schedules,
)
from mrtr_options.review.explore.never import never_in
from mrtr_options.review.judge.contract import violations
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.tool.catalogue import option_at, option_named
from mrtr_options.tool.guarantees import EVERY_DELIVERY
from mrtr_options.tool.weather import Effect, MemoryLedger
from tests.evidence import every


def named(found: Explored) -> dict[str, set[str]]:
    return {
        anomaly: {" ".join(map(str, faults)) for faults in sets}
        for anomaly, sets in found.counterexamples.items()
    }


USUAL = calling()


def played(name: str, faults: str, call: Scenario = USUAL) -> History:
    """Run a call under faults."""
    return anyio.run(run, subject_named(name), call.under(parse(faults)))


def test_a_client_that_is_told_to_send_again_later_may_get_the_result_then() -> None:
    """Let the first delivery die after the bill, whose key the destination honours."""
    call = calling(destination="honours keys")
    assert not violations(played("J+guard+call-key", "twice3 crash@bill3", call))


def test_a_frame_is_not_accused_of_what_two_instances_in_turn_do_to_it() -> None:
    assert (
        anyio.run(counterexamples, subject_named("H"), calling(fleet="free"), 1).unclassified == {}
    )


@pytest.mark.parametrize("at", ["audit1", "bill3"])
def test_a_client_that_retries_outlasts_what_fails_three_times(at: str) -> None:
    history = played("E", f"fail@{at} fail@{at}.2 fail@{at}.3")
    assert "call lost" not in anomalies_in(history)


@pytest.mark.parametrize("location", ["Tokyo", "Springfield"])
def test_every_fault_happens_where_it_is_bound_to(location: str) -> None:
    async def check() -> None:
        subject = subject_named("E")
        call = calling(location)
        last = rounds_of(location)
        clean = await run(subject, call)
        for kind in EXPLORED:
            history = await run(subject, call.under((Fault(last, 1, kind),)))
            assert history.events != clean.events, f"{kind} changes nothing"

    anyio.run(check)


@pytest.mark.parametrize("faults", ["ahead1", "ahead2", "more2", "more3"])
def test_the_guard_bills_once_whatever_a_careless_client_adds_to_an_answer(faults: str) -> None:
    assert "charged twice" not in anomalies_in(played("F+guard", faults))
    by_hand = anomalies_in(played("E", faults))
    assert ("charged twice" in by_hand) is (faults in ("ahead2", "more3"))


def test_explorations_are_of_clients_that_send_what_they_were_asked() -> None:
    subject = subject_named("E")
    clean = played("E", "")
    more = {fault.name for fault in possible(subject, clean, tuple(PLAYABLE))} - set(EXPLORED)
    assert more - set(ASKED) == {"ahead", "more"}
    assert {fault.name for fault in possible(subject, clean)} <= set(EXPLORED)


def test_a_run_that_its_last_fault_did_not_reach_has_no_more_of_them() -> None:
    """Nothing was lost, so the client sent no second attempt."""
    assert possible(subject_named("E"), played("E", "lost3.2")) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    every(
        "explorations that leave nothing out",
        {"five": ("restart", "twice", "lost", "crash@bill", "old"), "all": tuple(EXPLORED)},
        also=("five",),
    ),
)
def test_leaving_out_what_cannot_happen_loses_no_anomaly(kinds: tuple[str, ...]) -> None:
    subject = subject_named("H")
    call = calling("Tokyo")
    found = Explored(subject, call, 2)
    every = Explored(subject, call, 2)

    async def play(scenario: Scenario) -> History:
        return await run(subject, scenario)

    async def play_both() -> None:
        async for history in every_set(subject, call, 2, play, kinds):
            found.take(history.scenario.faults, anomalies_in(history))
        places = product((1, 2), repeat=2)
        faults = [Fault(at, attempt, kind) for at, attempt in places for kind in kinds]
        for each in chain.from_iterable(combinations(faults, size) for size in range(3)):
            has_one_for_itself = any(fault.kind.tried == "alone" for fault in each)
            if len(each) > 1 and has_one_for_itself:
                continue
            every.take(each, anomalies_in(await play(call.under(each))))

    anyio.run(play_both)
    assert set(every.counterexamples) == set(found.counterexamples)
    for anomaly, sets in every.counterexamples.items():
        for faults in sets:
            smaller = found.counterexamples[anomaly]
            assert any(is_part(each, faults) for each in smaller), (anomaly, faults)


def test_a_run_that_breaks_the_contract_and_shows_no_anomaly_is_kept(tmp_path: Path) -> None:
    asked = 'weather.which_units(place, unasked="metric")'
    reworded = f"replace({asked}, message='Units?')"
    option = option_named("F")
    source = option.source.replace(asked, reworded)
    future = "from __future__ import annotations\n"
    path = tmp_path / "other_words.py"
    path.write_text(source.replace(future, f"{future}from dataclasses import replace\n"))
    found = anyio.run(counterexamples, Subject(option_at(path)), calling(), 0)
    assert found.counterexamples == {}
    assert "questions-are-asked-in-order: allowed is the question" in found.unclassified[()]


def test_a_run_that_breaks_a_guarantee_and_shows_no_anomaly_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    option = option_named("F")
    assert option.guarantees is not None
    claims = option.guarantees.model_copy(update={"modern_springfield": "2/1"})
    called = Subject(replace(option, guarantees=claims)), calling()
    found = anyio.run(counterexamples, *called, 0)
    monkeypatch.setattr(
        "mrtr_options.review.explore.workers.explore_all", Mock(return_value=[found])
    )
    assert main(["explore", "F", "--markdown"]) == 1
    assert capsys.readouterr().err == (
        "unclassified violation: F, the client resends, destination: ignores keys, no fault:"
        " modern-clean-springfield-counts: audit/bill is '1/1', not '2/1'\n"
    )


@pytest.mark.slow
def test_a_result_that_is_sent_after_a_redeploy_is_of_the_version_that_made_it() -> None:
    assert anomalies_in(played("L", "down@bill3 redeploy3.2")) == set()


@pytest.mark.slow
def test_the_schedules_name_what_their_histories_show() -> None:
    shown, _ = anyio.run(play_schedules, [subject_named("F"), subject_named("H")])
    assert set(shown) == set(SCHEDULES)
    assert shown["lost-final"] == {"charged twice": ["F"]}
    assert shown["restart"] == {"call lost": ["H"]}
    assert shown["redeploy-reworded"]["answer to other words used"] == ["F"]
    assert shown["redeploy-removed-back"]["new question not asked"] == ["F"]
    assert shown["cold-answers"] == {"question skipped": ["F"]}
    for slug in (
        "tampered",
        "decline",
        "abandoned",
        "wrong-kind",
        "other-principal",
    ):
        assert not shown[slug], slug  # a client's misbehaviour is no anomaly


def test_every_delivery_that_an_option_may_guarantee_is_a_fault_that_is_explored() -> None:
    explored = {
        slug
        for slug, schedule in SCHEDULES.items()
        if schedule.modern and name_of(schedule.modern) == slug and not schedule.modern.script
    }
    assert set(EVERY_DELIVERY) <= explored


@pytest.mark.parametrize("text", ["lost", "lost0", "found3", "lost3.0", "3", "lost3;twice1"])
def test_a_fault_that_there_is_not_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(NoFault, match="is not a fault; write what goes wrong"):
        parse(text)


def test_faults_are_written_as_they_are_read() -> None:
    written = "lost1 restart2 crash@bill3 lost3.2"
    assert " ".join(map(str, parse(written))) == written


@pytest.mark.parametrize(
    ("faults", "why"),
    [
        ("lost3.2", "lost3.2 did not happen: there was no such request"),
        ("fail@bill1", "fail@bill1 did not happen: there was no bill in it"),
        ("down@bill2", "down@bill2 did not happen: there was no bill in it"),
        ("ahead3", "ahead3 may show nothing: it takes a request after which a question is due"),
        ("restart1", "restart1 may show nothing: it takes a request after the first"),
        ("back1", "back1 may show nothing: it takes a request that answers a question"),
    ],
)
def test_a_fault_that_can_show_nothing_is_named(
    faults: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["play", "F", "--faults", faults]) == 0
    assert why in capsys.readouterr().out


@pytest.mark.parametrize("faults", ["twice3 both3", "crash@bill3 fail@audit3"])
def test_two_faults_of_one_moment_are_refused_together(
    faults: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["play", "F", "--faults", faults])
    assert "cannot both happen to one request" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["A", "I", "F+legacy-shim"])
def test_two_deliveries_at_once_of_a_legacy_call_each_have_their_own_questions(name: str) -> None:
    old = calling(era="legacy")
    both = played(name, "both1", old)
    assert violations(both) == []
    assert anomalies_in(both) == anomalies_in(played(name, "twice1", old))


def test_what_is_found_does_not_depend_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a waiting delivery does not give up early, which would change its reply."""
    bill = MemoryLedger.record
    stall = partial(time.sleep, 1.2 * WAIT_SECONDS)

    async def slow(self: MemoryLedger, effect: Effect) -> None:
        stall()
        for _ in range(9):  # let the other delivery run
            await checkpoint()
        await bill(self, effect)

    monkeypatch.setattr(MemoryLedger, "record", slow)

    async def shown() -> frozenset[str]:
        return anomalies_in(await run(subject_named("F+guard"), calling().under(parse("both3"))))

    assert anyio.run(shown) == {"two responses to one request"}
    assert anyio.run(shown, backend_options=swift()) == set()


RIGHT_REPORT = "Springfield, Illinois: 22 °C, partly cloudy."
WRONG_REPORT = "Springfield, Missouri: 26 °C, sunny."


def test_a_report_of_another_calls_answer_is_misrouted_and_one_of_nothing_answered_ignores() -> (
    None
):
    def reported(faults: str, text: str) -> frozenset[str]:
        history = played("F", faults)
        events = [
            replace(event, reply=replace(event.reply, text=text))
            if isinstance(event, Received) and event.call == 1 and event.reply.is_result
            else event
            for event in history.events
        ]
        return anomalies_in(replace(history, events=tuple(events)))

    # The user of the other call answers Missouri.
    assert "misrouted answer" in reported("other2", WRONG_REPORT)
    assert "ignored answer" in reported("", WRONG_REPORT)
    assert not {"misrouted answer", "ignored answer"} & reported("other2", RIGHT_REPORT)


def test_a_client_that_calls_again_does_so_more_often_than_faults_are_tried_at_a_time() -> None:
    """Let the client outlast the faults, or its giving up would look like the subject's fault."""
    history = played("F", "lost1 lost1.2 lost1.3 lost3", calling(policy="calls again"))
    assert not {"never ends", "charged, told of an error"} & anomalies_in(history)


def test_that_a_client_gives_up_after_a_second_loss_is_no_fault_of_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def resends_once(loss: Loss) -> Next:
        return "send again" if loss.attempt == 1 else "end"

    monkeypatch.setitem(
        POLICIES, "resends once", LossPolicy("resend the request once", resends_once)
    )
    history = played("F", "lost1 lost1.2", calling(policy="resends once"))
    assert len(history.attempts) == 2
    assert "never ends" not in anomalies_in(history)


@pytest.mark.parametrize("faults", ["lost1", "lost3", "fail@bill3", "crash3"])
def test_a_client_that_stops_sends_nothing_after_an_error(faults: str) -> None:
    history = played("F", faults, calling(policy="stops"))
    (fault,) = history.scenario.faults
    last = history.attempts[-1]
    assert last.round == fault.round
    assert last.number == 1


@pytest.mark.parametrize(
    ("subject", "faults", "words", "is_charged_twice"),
    [
        ("F", "unsure@bill3", "same", True),
        ("J+guard+named", "unsure@bill3", "same", False),
        ("J+guard+named", "lost3", "same", False),
        ("J+guard+named", "lost3", "other", False),
        ("J+guard", "lost3", "other", True),
    ],
)
def test_an_unsure_effect_or_other_words_charge_twice_where_nothing_recognises_the_call(
    subject: str, faults: str, words: Words, is_charged_twice: bool
) -> None:
    history = played(subject, faults, calling(policy="calls again").in_words(words))
    assert ("charged twice" in anomalies_in(history)) == is_charged_twice


def test_unsure_effects_are_explored_where_they_are_asked_for() -> None:
    call = calling(policy="resends")
    asked = anyio.run(counterexamples, subject_named("F"), replace(call, also=("unsure@bill",)), 1)
    usual = anyio.run(counterexamples, subject_named("F"), call, 1)
    more = {name: sets - named(usual).get(name, set()) for name, sets in named(asked).items()}
    assert more["charged twice"] == {"unsure@bill3"}
    assert asked.unclassified == {}
    assert never_in(asked.as_json()) == []
