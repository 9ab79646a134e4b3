"""Tests of the page of `make page`, in a browser without a network: it shows what was run."""

import json
import re
from typing import Any

import anyio
import pytest

from documents import explored
from documents.choosing import choices
from documents.page.differences import ARGUING
from documents.page.document import document
from documents.page.html import page
from documents.page.runs import tell, worlds_of
from documents.tables import play_redeploys
from mrtr_options.__main__ import main as command
from mrtr_options.review.bench.faults import in_words, parse
from mrtr_options.review.bench.history.narrate import narrate as rows_of
from mrtr_options.review.bench.messages import JsonObject
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import calling
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.explore.counterexamples import weakest_of
from mrtr_options.review.judge.anomalies import ANOMALIES
from mrtr_options.review.judge.facts import anomalies_in
from mrtr_options.review.judge.observation import observe
from mrtr_options.review.show.svg import is_drawn
from mrtr_options.tool.notation import DEFAULT
from scoreboard.cost import report
from tests.browser import Tab
from tests.commands import printed
from tests.documents.conftest import KEPT

pytestmark = pytest.mark.slow

STALE = "stale: run make page"


def count(seen: Tab, subject: str, effect: str) -> int:
    return int(text(seen, f"[data-panel={subject}] [data-count={effect}]"))


def text(seen: Tab, selector: str) -> str:
    return seen.run(f"document.querySelector({json.dumps(selector)}).textContent")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("faults", ["", "lost3", "crash@bill3", "failover2", "back3", "other2"])
def test_a_story_is_the_run_that_play_makes(kept: JsonObject, policy: str, faults: str) -> None:
    history = anyio.run(run, subject_named("F"), calling(policy=policy).under(parse(faults)))
    (row,) = (row for row in kept["worlds"] if (row["subject"], row["policy"]) == ("F", policy))
    _, steps, _, _, audits, bills, _, anomalies = stories_of(kept, row)[faults]
    effects = observe(history).effects
    assert audits == effects["audit"]
    assert bills == effects["bill"]
    assert {kept["anomalies"][number]["name"] for number in anomalies} == anomalies_in(history)
    drawn = [row for row in rows_of(history) if is_drawn(row)]
    shown = [step for step in steps if "svg" in step and "skipped" not in step]
    said = [step["says"] for step in shown if "kept" not in step["svg"]]
    assert said == [row.label or row.text for row in drawn]


def test_a_cell_says_what_explore_says_in_the_same_words(seen: Tab, kept: JsonObject) -> None:
    seen.show("view=options&policy=resends")
    cells = seen.run(
        "Object.fromEntries([...document.querySelectorAll('td a[data-faults]')]"
        ".map((each) => [each.closest('td').id, [each.textContent, each.dataset.faults]]))"
    )
    rows = [row for row in kept["worlds"] if row["policy"] == "resends"]
    first = {row["behaviour"]: row for row in reversed(rows)}  # a cell shows a behaviour's first
    assert cells == {
        f"options/{row['subject']}/{name.replace(' ', '-')}": [
            f"✗ {in_words(parse(faults))}",
            faults,
        ]
        for row in first.values()
        for name, sets in row["witnesses"].items()
        for faults in [weakest_of(sets)]
    }
    assert f"in {sum(row['histories'] for row in rows):,} runs" in text(seen, "#least")


def test_a_lost_response_bills_twice_in_f_and_once_in_h(seen: Tab) -> None:
    seen.show("view=play&policy=resends&subjects=F,H")
    assert [count(seen, name, "bill") for name in "FH"] == [0, 0]
    seen.click("[data-key=end]")
    assert [count(seen, name, "bill") for name in "FH"] == [1, 1]
    seen.click('[data-panel=F] [data-at="response 3"]')
    seen.click("[data-fault=lost3]")
    assert [count(seen, name, "bill") for name in "FH"] == [2, 1]
    assert "charged twice" in text(seen, "[data-panel=F] [data-shown]")
    seen.click('[data-panel=H] [data-shortest="call lost"]')
    fragment = seen.run("location.hash")
    assert re.search(r"faults=(restart|failover)2", fragment)
    assert "call lost" in text(seen, "[data-panel=H] [data-shown]")
    before = seen.run("document.querySelector('#view').innerHTML")
    seen.open(seen.run("location.href"))
    assert seen.run("location.hash") == fragment
    assert seen.run("document.querySelector('#view').innerHTML") == before


def test_each_pair_that_is_offered_shows_what_the_command_counts(
    seen: Tab, kept: JsonObject
) -> None:
    for left, right in ARGUING:
        seen.show(f"view=diff&left={left}&right={right}")
        names = [kept["options"][letter]["title"] for letter in (left, right)]
        counted = json.loads(printed(command, "diff", left, right, "--json"))["changed_lines"]
        assert text(seen, "h1") == (
            f"{' to '.join(names)}: {counted} changed lines of what the author writes"
        )


def test_the_page_may_ask_for_nothing(opened: Tab) -> None:
    opened.open(KEPT.as_uri())
    opened.complaints.clear()
    refused = opened.run(
        "fetch('https://example.org/').then(() => 'fetched', (error) => 'refused')"
    )
    assert refused == "refused"
    assert any("Content Security Policy" in each for each in opened.complaints)


def without_runs(data: JsonObject) -> JsonObject:
    """Return a page's data without its runs, and without the state of the project."""
    tables = {name: table for name, table in data["tables"].items() if name != "redeploys"}
    return {"tables": tables} | {
        name: data[name]
        for name in (
            "default",
            "advice",
            "front",
            "why",
            "anomalies",
            "options",
            "pairs",
            "diffs",
            "sdk",
            "scoreboard",
        )
    }


def test_the_page_that_is_kept_has_the_tables_that_are_kept(kept: JsonObject) -> None:
    assert page(kept, report.read()) == KEPT.read_text(encoding="utf-8"), STALE
    assert without_runs(kept) == without_runs(json.loads(json.dumps(document([])))), STALE
    rows = {(row["subject"], row["policy"]): row for row in kept["worlds"]}
    assert len(rows) == len(kept["worlds"])
    for row in worlds_of(explored.read()).values():
        found = rows[row["subject"], row["policy"]]
        assert {name: found[name] for name in row} == row, STALE


@pytest.mark.evidence("runs of the page that is kept")
def test_the_page_that_is_kept_shows_the_runs_that_are_made_now(kept: JsonObject) -> None:
    made = document(tell(worlds_of(explored.read())), choices(), play_redeploys())
    now = json.loads(json.dumps(made))
    assert now["tables"]["redeploys"] == kept["tables"]["redeploys"], STALE
    assert now["chooser"] == kept["chooser"], STALE
    for row, other in zip(now["worlds"], kept["worlds"], strict=True):
        # The threads of an engine take turns, so its runs differ.
        if subject_named(row["subject"]).option.extra is None:
            assert stories_of(now, row) == stories_of(kept, other), f"{row['subject']}: {STALE}"


def stories_of(data: JsonObject, row: JsonObject) -> dict[str, list[Any]]:
    """Return every run of a world in full, by its faults."""
    names: list[str] = [*data["names"]]
    sets: list[str] = []
    found: dict[str, list[Any]] = {}
    for before, added, number in zip(row["before"], row["added"], row["stories"], strict=True):
        sets.append(f"{sets[before]} {names[added]}".strip() if before >= 0 else "")
        if number >= 0:
            heads, steps, *rest = data["stories"][number]
            found[sets[-1]] = [data["heads"][heads], [data["steps"][step] for step in steps], *rest]
    return found


def test_the_first_pictures_have_the_words_of_the_runs_that_they_show(
    seen: Tab, kept: JsonObject
) -> None:
    titles = seen.texts("[data-picture] h2")
    for subject, title in zip(("E", DEFAULT), titles, strict=True):
        (row,) = (
            each
            for each in kept["worlds"]
            if each["subject"] == subject and f"the client {each['policy']}" in title
        )
        *_, shown = stories_of(kept, row)["lost3"]
        assert in_words(parse("lost3")) in title
        assert [number for number, each in enumerate(ANOMALIES) if each.name in title] == shown
    assert ["charged twice" in title for title in titles] == [True, False]


UNKNOWN = {
    "view=play&subjects=F&faults=lost3,moon9": "moon9",
    "view=play&subjects=F&faults=lost,__proto__3": "lost, __proto__3",
    "view=play&subjects=F,Z&policy=resends&faults=lost3": "Z",
    "view=play&subjects=F&policy=moon&step=x": "moon",
    "view=toString&store=%3Cimg src=x%3E": "toString, <img src=x>",
    "view=diff&left=__proto__&era=x": "era, __proto__",
    "view=play&subjects=F&faults=" + "lost3," * 10_000 + "x" * 99: "x" * 30 + "…",
}


def test_a_link_with_something_unknown_shows_the_rest_and_says_so(seen: Tab) -> None:
    for fragment, named in UNKNOWN.items():
        seen.show(fragment)
        assert text(seen, ".unexplored") == f"Unknown in this link: {named}. The rest is shown."
        assert text(seen, "#view h1")


def test_the_keyboard_chooses_a_fault_and_steps(seen: Tab) -> None:
    seen.show("view=play&subjects=F&policy=resends")
    seen.run("""document.querySelector('[data-at="response 3"]').focus()""")
    for key in ("Enter", "ArrowDown", "Enter"):
        seen.press(key)
    assert "faults=crash3" in seen.run("location.hash")
    seen.run("document.activeElement.blur()")
    seen.press(" ")
    assert count(seen, "F", "audit") == 0
    while "step=end" not in seen.run("location.hash"):
        seen.press("ArrowRight")
    assert count(seen, "F", "bill") == 2


VIEWS = (
    "view=overview",
    "view=options&cell=options/F/charged-twice",
    "view=play&subjects=F,H&faults=lost3&step=end",
    "view=diff",
    *(f"view=diff&left={left}&right={right}" for left, right in ("EA", "BM", "BH")),
    "view=clients",
    "view=redeploys&cell=redeploys/J/reworded",
    "view=scoreboard&cell=servers/fastmcp/state-rewritten",
    *(
        f"view=scoreboard&board={board}"
        for board in ("frameworks", "proxies", "failures", "changes")
    ),
    "view=costs",
    "view=method",
)


@pytest.mark.parametrize(("width", "dark"), [(390, False), (900, True), (1400, True)])
def test_no_view_is_wider_than_the_screen_and_text_stands_out_from_what_is_behind_it(
    seen: Tab, width: int, dark: bool
) -> None:
    seen.resize(width, 900, dark=dark)
    for fragment in VIEWS:
        seen.show(fragment)
        assert not seen.run("document.documentElement.scrollWidth > innerWidth"), fragment
        assert seen.run(CONTRAST) == [], fragment


CONTRAST = """(() => {
  const light = ([r, g, b]) => [r, g, b].map((each) => each / 255)
    .map((each) => (each <= 0.03928 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4))
    .reduce((sum, each, place) => sum + each * [0.2126, 0.7152, 0.0722][place], 0);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const found = parts(getComputedStyle(each).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
  };
  const faint = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!own || !element.getClientRects().length) continue;
    if (element.closest("title, script, option, :disabled")) continue;
    const style = getComputedStyle(element);
    const colour = element.ownerSVGElement ? style.fill : style.color;
    const [one, other] = [light(parts(colour)), light(behind(element))].sort((a, b) => b - a);
    // A lane's line crosses the text, unless the text's edge hides it.
    const crossed = element.closest(".band svg")
      && `${style.paintOrder} ${parts(style.stroke)}` !== `stroke ${behind(element).slice(0, 3)}`;
    if (crossed || (one + 0.05) / (other + 0.05) < 4.5) faint.push(element.outerHTML.slice(0, 200));
  }
  return faint;
})()"""
