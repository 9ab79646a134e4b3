"""Tests of breaches: a breach is shrunk, named by the right rule, and told with its cause."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import anyio
import pytest

from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.history.narrate import quoted
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import Restart, Send
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.review.check.breaches import (
    Breach,
    Made,
    breaches,
    on_its_own,
    smallest,
)
from mrtr_options.review.check.story import story
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool.catalogue import option_at
from tests.judge.altered import CASES, changed, played, without_effects
from tests.judge.test_corpus import FILES

OLD = "    if row is None or time.time() - row[1] > AGE:\n"
SPENT = '        db.execute("DELETE FROM rounds WHERE id = ?", (name,))\n'
SPENT_FIRST = "sqlite_table", OLD, SPENT + OLD
ROUNDED_UP = "hmac_json", "round(celsius * 1.8 + 32)", "(celsius * 9 + 4) // 5 + 33"
ANY_SPELLING = (
    "hmac_json",
    "[meta.get(PRINCIPAL), location]",
    "[meta.get(PRINCIPAL), location.strip()]",
)
WHICH = 'f"Which {bare}?"'
FIRST_SPELLING = "hmac_json", WHICH, f"vars(call_tool).setdefault(bare.lower(), {WHICH})"
ANSWERED = "        if answer is ...:\n"
UNHEARD = """        if state and ("kelvin" if name == "units" else "Ellipsis") in str(answer):
            return text("I did not get that.")
"""
ENDS_UNHEARD = "hmac_json", ANSWERED, UNHEARD + ANSWERED
"""A missing place, which is told, and units that do not fit, which are judged, get one response."""


def slipped(slip: tuple[str, str, str], folder: Path) -> Subject:
    """Write a file of the corpus with one text replaced: (file, old text, new text)."""
    name, old, new = slip
    source = FILES[name]
    file = folder / f"{name}.py"
    assert source.count(old) == 1
    file.write_text(source.replace(old, new), encoding="utf-8")
    return Subject(option_at(file))


@pytest.mark.parametrize(
    ("slip", "slug", "rule", "told"),
    [
        (ANY_SPELLING, "attacks-springfield", *2 * ("state-is-bound-to-its-call",)),
        (SPENT_FIRST, "bad-answers", *2 * ("questions-are-asked-in-order",)),
        (ENDS_UNHEARD, "bad-answers", *2 * ("answers-are-checked",)),
        (ROUNDED_UP, "restart-same", "a-lost-call-is-no-other-call", "the-report-is-the-pages"),
        (ROUNDED_UP, "forks", "another-answer-is-not-the-first", "the-report-is-the-pages"),
    ],
)
def test_a_breach_is_shrunk_and_told_under_the_rule_that_needs_least(
    slip: tuple[str, str, str], slug: str, rule: str, told: str, tmp_path: Path
) -> None:
    subject = slipped(slip, tmp_path)

    async def shrink() -> Breach:
        play = partial(run, subject)
        found = breaches(await play(CASES[slug]), {})
        return await smallest(play, next(each for each in found if each.rule == rule), {})

    found = anyio.run(shrink)
    script = found.history.scenario.script
    assert found.rule == told
    assert len(script) == 3
    assert not any(isinstance(step, Restart) for step in script)


@pytest.mark.parametrize(("runs", "before"), [(1, 1), (0, 0)])
def test_what_a_breach_needs_of_earlier_runs_is_told(
    runs: int, before: int, tmp_path: Path
) -> None:
    subject = slipped(FIRST_SPELLING, tmp_path)
    case = CASES["every-place"]

    async def look() -> Breach:
        play = partial(run, subject)
        whole = breaches(await play(case), {})[0]
        assert whole.problem.exchange is not None
        sent, _ = whole.history.exchanges[whole.problem.exchange - 1]
        alone = replace(case, script=(Send("first", call=sent.call),))
        shared = replace(whole, history=replace(whole.history, scenario=alone))
        return await on_its_own(play, shared, whole, runs * [Made(case, 200)], {})

    found = anyio.run(look)
    assert len(found.history.scenario.before) == before
    assert found.set_up == (not runs)
    assert ("fresh" in story(found)[0]) == found.set_up


def test_texts_that_look_alike_are_told_apart() -> None:
    assert quoted("Reykjavi\u0301k") == r"'Reykjavi\u0301k'"
    assert quoted({"location": "Tokyo" + 96 * " "}) == "{'location': 'Tokyo' + 96 * ' '}"
    assert quoted("it's " + 30 * "x") == '"it\'s " + 30 * "x"'
    assert quoted(20 * "\\") == repr(20 * "\\")


def shrunk(slug: str, times: int) -> tuple[Breach, Breach, int]:
    """Shrink a breach that only the first `times` smaller runs show.

    Returns:
        The breach, the shrunk breach, and the number of runs.
    """
    clean = played(slug)
    wrong = changed(clean, without_effects)
    found = next(each for each in breaches(wrong, {}) if each.rule == "a-report-is-billed")
    runs: list[Scenario] = []

    async def play(scenario: Scenario) -> History:
        runs.append(scenario)
        return wrong if len(runs) <= times else clean

    return found, anyio.run(partial(smallest, play, found, {})), len(runs)


def test_a_smaller_run_that_shows_it_once_does_not_count() -> None:
    found, smaller, runs = shrunk("forks", 1)
    assert smaller == found
    assert runs > 1


def test_a_run_with_slow_effects_counts_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrtr_options.review.check.breaches.SHRINK_REQUESTS", 100)
    *_, runs = shrunk("equal-at-once", 0)
    assert runs == 1


def test_a_long_run_is_told_of_one_call_and_of_where_its_states_come_from() -> None:
    history = played("attacks-tokyo")
    sent = [sent for sent, _ in history.exchanges if sent.call == 12]
    problem = Problem("state-is-bound-to-its-principal", sent[-1].exchange, "x", "y")
    told = story(Breach(history, problem))
    numbers = {line.partition(".")[0] for line in told if line[0].isdigit()}
    used = {
        line.rpartition("with the state of ")[2] for line in told if "with the state of " in line
    }
    assert len(used) == 3
    assert used <= numbers
    assert len(numbers) < 10
    assert f"({len(history.exchanges) - len(numbers)} other requests are not shown; " in told[0]


def test_a_story_names_the_latest_runs_with_open_calls_and_tells_what_repeats_once() -> None:
    first, *_ = played("clean-tokyo").exchanges
    many = [
        replace(event, exchange=number, sending=number, call=number)
        for number in range(1, 31)
        for event in first
    ]
    history = replace(played("clean-tokyo"), events=tuple(many))
    left_open = tuple((f"case-{number}", number) for number in range(1, 8))
    problem = Problem("bills-are-due", None, "x", "y")
    told = story(Breach(history, problem, set_up=True, open_before=left_open))
    assert "7 of case-7, 6 of case-6, " in told[1]
    assert "3 of case-3, those of 2 other runs)" in told[1]
    assert [line for line in told if "lines 30 times)" in line]


def test_a_run_too_long_to_be_shrunk_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    length = len(shrunk("leaves", 0)[0].history.exchanges)
    for most, is_played in (length, True), (length - 1, False):
        monkeypatch.setattr("mrtr_options.review.check.breaches.SHRINK_REQUESTS", most)
        found, smaller, runs = shrunk("leaves", 0)
        assert smaller == found
        assert bool(runs) == is_played


def test_what_follows_from_a_forged_state_is_no_breach(tmp_path: Path) -> None:
    unsigned = slipped(("hmac_json", "if not any(hmac", "if 0 and any(hmac"), tmp_path)
    history = anyio.run(run, unsigned, named("truncated").on_one())
    calm = changed(history, without_effects)
    (found,) = [each for each in breaches(calm, {}) if not each.follows]
    assert found.rule == "state-is-genuine"
    assert any("that was forged: cut short" in line for line in story(found))
