"""Tests of the two lanes: the tests that they play, resuming after a break, and their summaries."""

import pytest

from tests import evidence

pytest_plugins = ["pytester"]

SESSION = f"""
import sys
sys.path.append({str(evidence.REPOSITORY)!r})
from tests import evidence

def pytest_addoption(parser):
    parser.addoption("--evidence", action="store_true")

def pytest_configure(config):
    evidence.register(config)
"""

TESTS = """
import pytest
from tests.evidence import every

NUMBERS = {"one": 1, "two": 2, "three": 3}

@pytest.mark.parametrize("number", every("numbers", NUMBERS, also=("two",)))
def test_number(number):
    assert number != 3, "three is no two"

@pytest.mark.skip(reason="needs a browser: apt-get install chromium")
def test_page():
    pass
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Make a folder with three items of evidence and a test that needs a browser."""
    kept = pytester.path / ".evidence" / "files.jsonl"
    monkeypatch.setattr(evidence, "FOLDER", kept.parent)
    monkeypatch.setattr(evidence, "kept_in", lambda: kept)
    pytester.makeconftest(SESSION)
    pytester.makepyfile(TESTS)
    return pytester


def shown(session: pytest.Pytester, *options: str) -> tuple[int, list[str]]:
    """Run a session; return its exit code and the lines that it printed."""
    ended = session.runpytest_inprocess("-p", "no:cacheprovider", *options)
    return int(ended.ret), [" ".join(line.split()) for line in ended.outlines]


@pytest.mark.parametrize("processes", [(), ("--numprocesses", "2")], ids=["one", "two"])
def test_all_evidence_is_played_and_what_differs_is_one_line(
    processes: tuple[str, ...], session: pytest.Pytester
) -> None:
    ended, lines = shown(session, "--evidence", *processes)
    assert ended == 1
    assert "numbers 3 0 0 1" in lines
    assert "numbers: test_number[three]: three is no two" in lines
    assert lines.count("1 differ") == 1


def test_what_was_played_is_not_played_again_and_what_differed_is(session: pytest.Pytester) -> None:
    shown(session, "--evidence")
    assert any("1 failed" in line for line in shown(session, "--evidence")[1])
    session.makepyfile(TESTS.replace("number != 3", "number"))
    ended, lines = shown(session, "--evidence")
    assert ended == 0
    assert "numbers 3 2 0" in lines
    ended, lines = shown(session, "--evidence")
    assert ended == 0
    assert "numbers 3 3 0" in lines
    assert "nothing differs" in lines
