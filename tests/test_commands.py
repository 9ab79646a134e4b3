"""Tests that every command line in the README, the documents and the notebooks runs as written."""

from multiprocessing.forkserver import ensure_running
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest

from documents import ROOT
from documents.tables import documents
from mrtr_options.review.check.report import Report
from scoreboard.frameworks.findings import FINDINGS
from scoreboard.frameworks.frameworks import frameworks
from scoreboard.servers.peers import peers
from tests.commands import (
    called,
    commands_in,
    copy_of_the_project,
    mentioned_in,
    run,
    standard_input,
)
from tests.evidence import every

pytestmark = pytest.mark.slow

ELSEWHERE = {
    "make test": "it runs these tests",
    "make demo": "it is `python -m mrtr_options` behind the installation that these tests run in",
    "source .venv/bin/activate": "the environment of these tests does what it does",
    "make clients": "it installs other projects' clients and takes a quarter of an hour",
    "make mutants": "tests/mutants/test_mutants.py runs its command",
    "make chaos": "tests/chaos/test_chaos.py runs its command",
    "python -m tests.model": "tests/model/test_driven.py drives the same, with --evidence",
    "python -m tests.chaos --subject L --database temporal --only database-down": "as `make chaos`",
    **{
        f"python -m scoreboard.proxies --only {name}": "it needs the proxy, and keeps what it plays"
        for name in (
            "caddy",
            "envoy",
            "fastmcp",
            "haproxy",
            "mcp-proxy",
            "mcp-proxy-npm",
            "nginx",
            "traefik",
        )
    },
    "python -m scoreboard.clients --clients temporal --only cut-final --server H": (
        "it installs an engine's client; make clients keeps what it plays"
    ),
    **{
        f"python -m scoreboard.conformance {name}": "it needs npm; make conformance plays it"
        for name in ("E", "careless")
    },
    "python -m scoreboard.cost": "it needs an idle machine, and minutes",
    "python -m scoreboard.cost --bounds": "it needs an idle machine, and minutes",
    "python -m scoreboard.clients --clients resuming --server F+guard+key": (
        "it plays every trouble"
    ),
    "python -m mrtr_options serve E --http 8000": "tests/test_serving.py serves on a free port",
    ".venv/bin/pytest tests/test_invariant.py --proposal=my_option.py": (
        "tests/test_proposal.py runs it"
    ),
    "pytest tests/test_invariant.py --proposal my_option.py": "tests/test_proposal.py runs it",
    "python -m scoreboard.clients --only cut-final --clients python --server H": (
        "tests/scoreboard/test_clients.py plays the same in one process"
    ),
    "python -m mrtr_options check --init my_option.py": "tests/judge/test_check.py runs it",
    "python -m mrtr_options check my_option.py": "with --html it is run as well",
    **{
        f"python -m documents{arguments}": "tests/documents/test_documents.py makes the same parts"
        for arguments in (
            "",
            " --kept",
            " --candidates",
            " --explore all",
            " docs/results/API.md",
            " docs/results/CONTRACT_RULES.md",
        )
    },
    "python -m scoreboard.proxies": "it needs the proxies, and keeps what it plays",
    **{found.command: "it installs a framework" for found in FINDINGS.values()},
    **{
        f"python -m scoreboard.{board} --only {name}": "it installs what it plays, for minutes"
        for board, names in (("servers", peers()), ("frameworks", frameworks()))
        for name in names
    },
    "python -m tests.chaos.size": "it needs Temporal's server, and ten minutes",
    **{
        f"python -m examples.{name}": "tests/test_examples.py runs it"
        for name in ("basic", "multiround", "carriers", "inputs", "business_key")
    },
}
"""Commands that are not run here, and the reasons."""

OF_SECONDS = (
    "python -m scoreboard.proxies --guards",
    "python -m scoreboard.clients --clients python --only 307 --server F,F+guard",
    "python -m mrtr_options explore default --destination all --also unsure",
    "python -m mrtr_options explore default --destination all --client calls-again --words other",
)
"""Commands that take seconds: `make evidence` runs them."""

LONG = {
    "python -m mrtr_options matrix": "matrix",
    "python -m mrtr_options matrix --only lost-final,fork": "matrix",
    "python -m mrtr_options matrix --options K --deployment processes": "matrix",
    "python -m mrtr_options schedules --run": "schedules",
    "python -m mrtr_options explore --faults 2": "explore",
    "python -m mrtr_options explore F H F+guard --faults 2": "explore",
    "python -m mrtr_options explore F+guard --faults 3 --resume k3.jsonl": "explore",
    (
        "python -m mrtr_options explore F+guard+key G+guard+key H+guard+key J+key J+guard+key L+key"
        " --faults 2 --destination honours-keys"
    ): "explore",
    (
        "python -m mrtr_options explore E F G H J F+guard G+guard H+guard J+guard F+guard+named"
        " G+guard+named H+guard+named J+guard+named --destination all"
    ): "explore",
    "python -m mrtr_options explore F examples/styles/suspend_with_data.py --faults 1": "explore",
    "python -m mrtr_options check my_option.py --html report.html": "check",
    "python -m mrtr_options check http://127.0.0.1:8000/mcp --ledger ledger.sqlite": "check",
}
"""Commands that take long. The tests check only that they take their arguments, and call the
functions that do and show their work.
"""

WORK: dict[str, tuple[str, type[Mock], object]] = {
    "matrix": ("review.judge.grid.run", AsyncMock, []),
    "schedules": ("review.explore.counterexamples.play_schedules", AsyncMock, ({}, {})),
    "explore": ("review.explore.workers.explore_all", Mock, []),
    "check": ("review.check.targets.check_target", AsyncMock, Report("a proposal")),
}

SHOWN_BY = {
    "matrix": "show.tables",
    "schedules": "show.listing",
    "explore": "explore.summary",
    "check": "show.verdict",
}

DOCUMENTS = [
    path.read_text(encoding="utf-8")
    for path in documents()
    if path.name != "USING.md"  # tests/test_booking.py follows this page
]
NOTEBOOKS = [path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
QUIET = " --json"
"""The flag with which a long command shows nothing until its end. It is tried without the flag."""

MENTIONED = [
    command.removesuffix(QUIET)
    for text in (*DOCUMENTS, *NOTEBOOKS)
    for command in mentioned_in(text)
    if ".option_" not in command  # tests/test_demo.py runs the main of every option
]
SHOWN = [command for text in DOCUMENTS for command in commands_in(text)]
COMMANDS = list(dict.fromkeys([*SHOWN, *MENTIONED]))


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project, and put a proposal into the copy."""
    ensure_running()  # here: started in the copy, it would import the copy for all later tests
    folder = copy_of_the_project(tmp_path_factory.mktemp("commands"))
    source = (folder / "mrtr_options" / "option_f_once.py").read_text(encoding="utf-8")
    (folder / "my_option.py").write_text(source, encoding="utf-8")
    return folder


def test_every_exception_is_a_command_of_the_documents() -> None:
    assert {*ELSEWHERE, *OF_SECONDS, *LONG} <= set(COMMANDS)


AS_WRITTEN = [each for each in COMMANDS if each not in {*ELSEWHERE, *OF_SECONDS, *LONG}]


@pytest.mark.parametrize("command", AS_WRITTEN)
def test_a_command_runs_as_it_is_written(
    command: str, copy: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(copy)
    with standard_input("1\n" * 20):
        assert called(command) == 0
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "command", every("commands of the documents", {each: each for each in OF_SECONDS})
)
def test_a_command_of_seconds_runs_as_it_is_written(command: str, copy: Path) -> None:
    ran = run(command, copy)  # in a process of the copy: a board writes what it finds beside itself
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("command", LONG)
def test_the_arguments_of_a_long_command_are_taken(
    command: str, copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, kind, done = WORK[LONG[command]]
    work = kind(return_value=done)
    show = Mock()
    monkeypatch.chdir(copy)
    monkeypatch.setattr(f"mrtr_options.{name}", work)
    monkeypatch.setattr(f"mrtr_options.review.{SHOWN_BY[LONG[command]]}.show", show)
    assert called(command) == 0
    assert work.call_count == 1
    assert show.call_count == 1
