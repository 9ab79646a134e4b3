"""Tests of the frameworks' board: the findings, and its machinery on a plain program.

`make scoreboard` plays the frameworks themselves.
"""

import ast
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from mrtr_options.review.bench.messages import Reply
from scoreboard.board import read
from scoreboard.frameworks import frameworks as folders
from scoreboard.frameworks.cases import edited, made_up
from scoreboard.frameworks.frameworks import DOMAIN, Framework, Variant, frameworks
from scoreboard.frameworks.page import outcome, rows
from scoreboard.frameworks.play import Played, fate_of, of_races, review
from scoreboard.frameworks.programs import PARKED, Afterwards, reply_of
from scoreboard.servers.peers import build


def own_texts() -> set[str]:
    """Return the texts of errors that our own programs around the frameworks can raise."""
    found = set[str]()
    for path in folders.FOLDER.glob("*/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                parts = (
                    each.value for each in ast.walk(node.exc) if isinstance(each, ast.Constant)
                )
                found |= {each for each in parts if isinstance(each, str) and len(each) > 8}
    for path in folders.FOLDER.glob("*/*.mjs"):
        found |= {*re.findall(r"new Error\(['`](.{8,}?)['`$]", path.read_text(encoding="utf-8"))}
    return found


def test_nothing_that_is_held_against_a_framework_rests_on_an_error_of_our_own_programs() -> None:
    texts = own_texts()
    wrong = list[str]()
    assert "the workflow does not go on" in texts
    for framework, variant, found in rows(read()):
        for name, played in found.cases.items():
            blamed = played.end == "error" and (played.shown or played.fate == "lost")
            failing = [line for line in played.history if "gets error" in line]
            if blamed and any(text in line for text in texts for line in failing):
                wrong.append(f"{framework.name}, {variant.name}: {name}")
    assert wrong == []


FAILED = Reply(code=-32603, message="the client was told this")


@pytest.mark.parametrize(
    ("ours", "read_of_it", "expected"),
    [
        (["TimeoutError: we waited"], Afterwards("error", "gone"), "limitation"),
        ([], Afterwards("result", "sunny"), "readable"),
        ([], Afterwards("parked", "PENDING"), "parked"),
        ([], Afterwards("question", "Which units?"), "refused"),
        ([], Afterwards("error", "no such run"), "lost"),
        ([], Afterwards("unread"), "unread"),
    ],
)
def test_what_became_of_a_call_is_told_apart(
    ours: list[str], read_of_it: Afterwards, expected: str
) -> None:
    assert fate_of("error", FAILED, ours, read_of_it) == expected
    assert fate_of("error", Reply(message=PARKED + "PENDING"), ours, None) in (
        "parked",
        "limitation",
    )


def test_a_race_says_each_outcome() -> None:
    def once(bills: int) -> Played:
        return Played(
            end="result", fate="result", says="", audits=1, bills=bills, shown=[], history=[]
        )

    played = of_races([once(1), once(2), once(1)])
    assert played.bills == 2
    assert played.times == {"1/1": 2, "1/2": 1}
    assert outcome(played) == "1/1 or 1/2"


PLAIN = """
import sys
import tool

CARRIES, KEEPS = sys.argv[1:]


def go(call, said):
    file = tool.STORE / f"{call}-{len(said)}-{said.get('units')}"
    if KEEPS == "keeps" and file.is_file():
        return tool.done(file.read_text())
    tool.audit("Springfield")
    pause = {"call": call, "said": said}
    if CARRIES == "id":
        (tool.STORE / call).write_text(repr(said))
        pause = {"call": call}
    if "place" not in said:
        return tool.asked(tool.which_place("Springfield"), pause)
    if tool.CONSENT and "consent" not in said:
        return tool.asked(tool.may_bill(said["place"]), pause)
    if "units" not in said:
        return tool.asked(tool.which_units(said["place"]), pause)
    if KEEPS == "raises":
        raise TimeoutError("our own program waited too long")
    if KEEPS == "silent":
        return tool.silent()
    tool.bill(said["place"])
    text = tool.report(said["place"], said["units"])
    file.write_text(text)
    return tool.done(text)


def start(call, location, user):
    return go(call, {})


def resume(pause, name, value, user):
    said = pause["said"] if CARRIES == "carries" else eval((tool.STORE / pause["call"]).read_text())
    return go(pause["call"], said | {name: value})


def read(call, pause, user):
    tool.bill("Springfield, Missouri")
    return tool.done("sunny")


tool.deliver(start, resume, read if KEEPS == "silent" else None)
"""


Plays = Callable[..., dict[str, Played]]


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plays:
    """Return what plays a program that replays from the top; it returns its results by case."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Framework, "root", Path("/"))
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "plain.py").write_text(PLAIN, encoding="utf-8")

    def play(*how: str, only: tuple[str, ...] | None = None) -> dict[str, Played]:
        start = [sys.executable, "plain.py", *how]
        carries = how[0] == "carries"
        like = {
            "name": "plain",
            "folder": tmp_path / "plain",
            "build": [],
            "needs": [],
            "variants": [Variant(name="plain", start=start, pause="", carries=carries, author="")],
        }
        found = frameworks(DOMAIN.parent)["langgraph"].model_copy(update=like)
        build(found, print)
        return anyio.run(review, found, found.variants[0], print, only).cases

    return play


@pytest.mark.evidence("every case of the frameworks' board")
@pytest.mark.slow
def test_a_program_that_replays_and_keeps_nothing_shows_what_that_means(plain: Plays) -> None:
    found = plain("carries", "forgets")
    clean = found["clean"]
    assert clean.end == "result"
    assert clean.says == "Springfield, Missouri: 79 °F, sunny."
    counts = {name: (played.audits, played.bills) for name, played in found.items()}
    assert counts["clean"] == counts["killed"] == (3, 1)
    assert counts["last-twice"] == counts["last-lost"] == counts["at-once"] == (4, 2)
    assert counts["crash-bill"] == (4, 2)
    assert counts["crash-audit"] == counts["crash-audit-2"] == (4, 1)
    assert any("dies" in line for line in found["crash-bill"].history)
    assert "charged twice" in found["last-lost"].shown
    assert found["added-second"].shown == ["logged twice"]
    assert any("is deployed" in line for line in found["added-second"].history)
    assert "misrouted answer" not in found["first-twice"].shown
    assert found["edited"].taken
    assert any("bill of 'Lisbon, Portugal'" in line for line in found["edited"].history)
    assert found["others"].taken
    assert "made-up" not in found


def test_what_a_program_bills_while_its_call_is_read_is_counted(plain: Plays) -> None:
    played = plain("id", "silent", only=("clean",))["clean"]
    assert played.fate == "readable"
    assert played.bills == 1
    assert played.history[-2:] == [
        "afterwards the call is read: result 'sunny'",
        "   effect: bill of 'Springfield, Missouri'",
    ]


def test_a_program_that_keeps_its_result_bills_once_for_a_repeated_answer(plain: Plays) -> None:
    only = ("last-twice", "last-lost", "crash-bill", "made-up", "edited")
    found = plain("id", "keeps", only=only)
    assert found["last-twice"].bills == found["last-lost"].bills == 1
    assert found["crash-bill"].bills == 2
    assert found["made-up"].taken is False
    assert found["made-up"].end == "error"
    assert "edited" not in found


def test_an_error_of_our_own_program_counts_against_nobody(plain: Plays) -> None:
    found = plain("id", "raises", only=("last-lost",))["last-lost"]
    assert found.end == "error"
    assert found.fate == "limitation"
    assert found.shown == []
    assert outcome(found) == "harness limitation"


def test_a_pause_is_changed_as_the_attacks_say() -> None:
    pause = json.dumps({"thread": "call-1", "said": {"place": "Springfield, Missouri"}})
    (other,) = made_up(pause)
    assert json.loads(other)["thread"] != "call-1"
    (changed,) = edited(pause)
    assert json.loads(changed)["said"] == {"place": "Lisbon, Portugal"}
    everywhere, *singly = edited(f"[{pause}, {pause}]")
    assert everywhere.count("Lisbon") == 2
    assert [each.count("Lisbon") for each in singly] == [1, 1]


def test_what_a_program_says_that_is_not_of_the_interface_is_malformed() -> None:
    assert reply_of({"result": "x"}).malformed
    assert reply_of({"done": "x"}).is_result
    assert reply_of({"error": "x"}).code is not None
    asked = {"key": "consent", "message": "Go on?", "choices": ["yes"]}
    assert reply_of({"asked": asked, "pause": {"id": 1}}).state == '{"id": 1}'
