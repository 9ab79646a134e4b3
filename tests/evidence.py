"""The two lanes: `make test` plays every claim once, `make evidence` all evidence of the documents.

`make evidence` plays the tests with the mark `evidence("section")`; `make test` also plays those
with `also=True`. Results are stored in `.evidence/`, in a file for each state of the repository's
files, so that an interrupted run goes on and changed code is played again.

Knows pytest and the reports that processes send, and nothing of the tests themselves.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from _pytest.terminal import TerminalReporter

REPOSITORY = Path(__file__).parent.parent
FOLDER = REPOSITORY / ".evidence"
READ = (
    "documents",
    "examples",
    "model",
    "mrtr_options",
    "tests",
    "docs",
    "notebooks",
    "scoreboard",
)
"""The folders on which results depend, besides the files in the repository's root."""

MOST_SECONDS = 3600
"""The time limit of one item of evidence: an option on an engine has a thousand histories."""

WIDTH = 160
"""The most characters of a difference in the summary; the report of the test has the rest."""


def every(section: str, items: Mapping[str, Any], also: Collection[str] = ()) -> list[ParameterSet]:
    """Parametrize a test with items that `make evidence` plays.

    Args:
        section: The row of the summary that counts them.
        items: The items, by name.
        also: The names of the items that `make test` plays, too, as each shows its own claim.
    """
    assert set(also) <= items.keys(), set(also) - items.keys()
    return [
        pytest.param(item, id=name, marks=pytest.mark.evidence(section, also=name in also))
        for name, item in items.items()
    ]


@dataclass
class Played:
    """The result of one test.

    Attributes:
        test: The test's node id.
        section: The row of the summary that counts it.
        seconds: The time that it took.
        differs: The difference that it found; empty if there is none.
    """

    test: str
    section: str
    seconds: float
    differs: str = ""


@cache
def kept_in() -> Path:
    """Return the file of results; its name changes with every file that results depend on."""
    files = [path for path in REPOSITORY.iterdir() if path.is_file()]
    for folder in READ:
        files += [path for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    known = sorted(path for path in files if "__pycache__" not in path.parts)
    parts = [part for path in known for part in (f"{path.relative_to(REPOSITORY)}\0", path, "\0")]
    from mrtr_options.review.explore.kept import digest_of  # a session of claims needs none of it

    return FOLDER / f"{digest_of(*parts)}.jsonl"


def read(file: Path) -> list[Played]:
    """Read the stored results."""
    from mrtr_options.review.explore.kept import KeptLines

    return [Played(**row) for row in KeptLines(file).read()]


def store(file: Path, played: Played) -> None:
    """Store a result."""
    from mrtr_options.review.explore.kept import KeptLines

    KeptLines(file).add(asdict(played))


@dataclass(eq=False)
class Lane:
    """The choice of tests: the claims, or (`--evidence`) the evidence without a stored result."""

    evidence: bool
    kept: Collection[str] = ()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the tests of the other lane, and those with a stored result."""
        wanted: list[pytest.Item] = []
        for item in items:
            mark = item.get_closest_marker("evidence")
            if not self.evidence:
                if mark is None or mark.kwargs.get("also"):
                    wanted.append(item)
            elif mark is not None and item.nodeid not in self.kept:
                item.user_properties.append(("section", mark.args[0]))
                item.add_marker(pytest.mark.timeout(MOST_SECONDS))
                wanted.append(item)
        items[:] = wanted


@dataclass(eq=False)
class Summary:
    """The results of a session of evidence, stored by its first process, and their table.

    Attributes:
        kept: The results of earlier sessions on the same files, all without a difference.
        now: The results of this session.
    """

    kept: Sequence[Played]
    now: list[Played] = field(default_factory=list[Played])

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Tell every process which tests to leave out; results stored later change nothing."""
        node.workerinput["kept"] = [each.test for each in self.kept]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a result; store it if nothing differs."""
        section = dict(report.user_properties).get("section")
        if section is None or not (report.failed or (report.passed and report.when == "call")):
            return
        differs = said_of(report) if report.failed else ""
        played = Played(report.nodeid, str(section), report.duration, differs)
        self.now.append(played)
        if not differs:
            store(kept_in(), played)

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """End with success if no test is left because all results are stored."""
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.kept:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        write = terminalreporter.write_line
        every = [*self.kept, *self.now]
        differ = [each for each in self.now if each.differs]
        terminalreporter.section("evidence")
        write(f"{'section':<44}{'played':>8}{'earlier':>9}{'seconds':>9}{'differ':>8}")
        for section in sorted({each.section for each in every}):
            played, earlier, wrong = (
                [each for each in some if each.section == section]
                for some in (every, self.kept, differ)
            )
            seconds = sum(each.seconds for each in played)
            counts = f"{len(played):>8}{len(earlier):>9}{seconds:>9.0f}{len(wrong) or '':>8}"
            write(f"{section:<44}{counts}", red=bool(wrong))
        for each in differ:
            write(f"{each.section}: {each.test.rpartition('::')[2]}: {each.differs}", red=True)
        write(f"{len(differ)} differ" if differ else "nothing differs", red=bool(differ))


def said_of(report: pytest.TestReport) -> str:
    """Return the first line of the reason why a test failed."""
    crash: Any = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else str(report.longrepr).strip()
    text = text.removeprefix("AssertionError: ").partition("\n")[0]
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


class LeftOut:
    """The names of the skipped tests, in a file: `.ci/run` plays them after what they need."""

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        names = {report.nodeid: "" for report in terminalreporter.stats.get("skipped", [])}
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / "left-out").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def register(config: pytest.Config) -> None:
    """Choose the lane of a session."""
    config.addinivalue_line(
        "markers",
        "evidence(section, also=False): `make evidence` plays it; with also, `make test`, too",
    )
    config.pluginmanager.register(LeftOut())
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    if not config.getoption("--evidence"):
        config.pluginmanager.register(Lane(evidence=False))
    elif worker is not None:
        config.pluginmanager.register(Lane(evidence=True, kept=worker["kept"]))
    else:
        kept = read(kept_in())
        config.pluginmanager.register(Lane(evidence=True, kept={each.test for each in kept}))
        config.pluginmanager.register(Summary(kept))
