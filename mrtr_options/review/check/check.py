"""The whole review of one proposal: its broken rules, its risks, and the option that it is like.

A proposal is a Python file with a `server` (or its own `build_server()`), an importable module, or
the URL of a running server in any language that keeps the contract (docs/CONTRACT.md).
"""

from __future__ import annotations

import importlib.util
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

import anyio
from mcp_types import METHOD_NOT_FOUND

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.errors import UsageError
from mrtr_options.review.bench.deployments import Deployment, quiet_servers, remote
from mrtr_options.review.bench.deployments.children import HANG_SECONDS, CannotStart, Children
from mrtr_options.review.bench.faults import ERAS, EXPLORED, NAMED, Era, Fault, Fleet, names_of
from mrtr_options.review.bench.history import (
    HUNG,
    Crashed,
    Effect,
    History,
    Received,
    Request,
)
from mrtr_options.review.bench.ledger import MADE_TO_FAIL
from mrtr_options.review.bench.run import run as run_one
from mrtr_options.review.bench.scenario import (
    ListTools,
    Policy,
    Scenario,
    calling,
)
from mrtr_options.review.bench.schedules import SCHEDULES, named
from mrtr_options.review.bench.scratch import scratch
from mrtr_options.review.bench.subjects import Subject, all_subjects
from mrtr_options.review.check import batches
from mrtr_options.review.check.cases import (
    TASKS,
    at_random,
    elsewhere,
    for_one_user,
    systematic,
)
from mrtr_options.review.check.findings import (
    GIVE_UP,
    Finding,
    Made,
    on_its_own,
    smallest,
    waiting_calls,
)
from mrtr_options.review.check.pace import (
    CASE_SECONDS,
    DRAWN_SECONDS,
    SCHEDULE_SECONDS,
    Pace,
)
from mrtr_options.review.check.report import Nearest, Report
from mrtr_options.review.check.risks import ALSO, risks
from mrtr_options.review.explore.combinations import explore, not_tried, possible
from mrtr_options.review.explore.counterexamples import Explored
from mrtr_options.review.judge import guarantees
from mrtr_options.review.judge.anomalies import anomalies_in
from mrtr_options.review.judge.contract.allowed import ROOM
from mrtr_options.review.judge.grid import Cell, cells, run, split
from mrtr_options.review.judge.observation import Observation
from mrtr_options.tool.catalogue import (
    BEGIN,
    CannotLoad,
    Option,
    option_at,
    option_named,
    require_file,
    runnable,
)
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import SqliteLedger

DRAWN = 40
"""The number of runs that are drawn at random, besides the schedules and the cases."""

GUESSED = "", "secret"
"""Keys that anybody guesses."""

NEAR = 4
"""The most similar option is named if it differs in at most one of so many runs."""

FAULTS = 1
"""The default number of faults at a time that a call is made under, to look for risks."""

SMALLER_RUNS = 200
"""The number of runs, about, that may be made to shrink the findings."""

Told = Callable[[str], None]
"""Called with the name of each run before it is made."""

OnFinding = Callable[[Finding], None]
"""Called with each broken rule as soon as it is found."""

CONTROLS = "clean-tokyo", "clean-springfield"
"""The calls that have to end well, or else a refused attack does not count."""

MEASURED = 3
"""The number of requests that are made to measure how long one takes."""

LONG_FROM = "crowd"
"""The first of the cases that take long; the cases before it come before the schedules."""

Begun = Callable[[str, int], None]
"""Called with the name of each run, and with the number of runs, as far as it is known by then."""


FRESH_RUNS = 60
"""The number of runs on fresh servers after which no further finding is tried there."""


def _ignore(*_: object) -> None:
    return


@dataclass(frozen=True)
class Extent:
    """The extent of a review.

    Attributes:
        drawn: The number of runs that are drawn at random. A number of seconds would make the
            verdict depend on the machine.
        seed: The seed of the runs that are drawn at random.
        hang_seconds: The longest time for one request before it is called hung.
        faults: The most faults at a time, to look for risks; 0 not to look. None for `FAULTS`, or 0
            if only some runs are made.
        only: Slugs; if there are any, only these runs are made.
    """

    drawn: int = DRAWN
    seed: int = 0
    hang_seconds: float = HANG_SECONDS
    faults: int | None = None
    only: Collection[str] = ()

    @property
    def bound(self) -> int:
        """The number of faults at a time."""
        if self.faults is not None:
            return self.faults
        return 0 if self.only else FAULTS


class CannotJudge(UsageError):
    """A proposal that gives nothing to judge.

    The details are the author's traceback, or the server's position.
    """


async def check_target(
    target: str,
    ledger_file: str | None,
    extent: Extent = Extent(),
    on_begin: Begun = _ignore,
    on_option: Told = _ignore,
    on_finding: OnFinding = _ignore,
) -> Report:
    """Review a proposal.

    Args:
        target: A file, a module, an option, a URL, or several with commas.
        ledger_file: The file in which a running server records its effects.
        extent: See `check_file`.
        on_begin: See `check_file`.
        on_option: See `check_file`.
        on_finding: See `check_file`.

    Raises:
        CannotLoad, CannotReach, CannotJudge, LedgerUnusable: The target cannot be run.
    """
    if not target.startswith(remote.URL):
        return await check_file(file_of(target), extent, on_begin, on_option, on_finding)
    if ledger_file is None:
        raise CannotLoad("a running server needs --ledger FILE, the file it counts effects in")
    urls = [url.strip() for url in target.split(",")]
    if strange := [url for url in urls if not remote.is_url(url)]:
        raise CannotLoad(
            f"{strange[0]!r} is not a URL; write http://HOST:PORT/mcp, or several with commas"
        )
    return await check_url(urls, Path(ledger_file), extent, on_begin, on_option, on_finding)


def file_of(target: str) -> Path:
    """Return the file of a proposal named by its path, as a module, or as an option.

    Raises:
        CannotLoad: There is none.
    """
    if target.endswith(".py"):
        return Path(target)
    if Path(target).is_file():
        raise CannotLoad(f"{target} is not a Python file; name one that ends in .py")
    option = None
    with suppress(CannotLoad):
        option = option_named(target)
    if option is not None:
        return runnable(option).path
    try:
        spec = importlib.util.find_spec(target)
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        if Path(target).is_dir():
            require_file(Path(target))
        raise CannotLoad(
            f"{target!r} is not an option, a file, a module or a URL;"
            " name a Python file with a `server` in it"
        )
    return Path(spec.origin)


@dataclass
class _Review:
    """The state of a review: its proposal, its deployment, its runs and its results.

    Attributes:
        report: The results.
        where: The deployment.
        extent: How thoroughly the proposal is reviewed.
        on_begin: Called with the name of each run before it is made.
        subject: The proposal as a subject.
        fit: Adapts a case to the deployment.
        kinds: The kinds of faults that are tried in a call.
        setups: The clients and the fleets of that call; the risks are those of the first.
        fresh: Starts servers that have answered nothing; None if none can be started.
        of: The number of runs, as far as it is known.
        made: The runs that were made there, in order.
        alone: The number of runs on fresh servers for findings.
        tracebacks: Returns the latest exceptions of the author's code.
        raised: The exceptions of modern runs in which nothing goes wrong at an effect.
        legacy: The exceptions of an old client's runs.
        deadly: The cases in which an instance dies in a round. They come last.
        on_finding: Called with each broken rule as soon as it is found.
        measured_by: The era of the client that measures how long a request takes.
        pace: The measured pace.
    """

    report: Report
    where: Deployment
    extent: Extent
    on_begin: Begun
    subject: Subject
    fit: Callable[[Scenario], Scenario] = lambda scenario: scenario
    kinds: Collection[str] = tuple(EXPLORED)
    setups: Sequence[Scenario] = (calling(),)
    fresh: Callable[[], AbstractAsyncContextManager[Deployment]] | None = None
    of: int = 1
    made: list[Made] = field(default_factory=list[Made])
    alone: int = 0
    tracebacks: Callable[[], list[str]] = list
    raised: list[str] = field(default_factory=list[str])
    legacy: Counter[str] = field(default_factory=Counter[str])
    deadly: list[Scenario] = field(default_factory=list[Scenario])
    on_finding: Callable[[Finding], None] = lambda finding: None
    measured_by: Era = "modern"
    pace: Pace = field(default_factory=Pace)

    def begin(self, name: str) -> None:
        """Count a run that is about to be made, and report its name."""
        self.report.runs += 1
        self.of = max(self.of, self.report.runs)
        self.on_begin(name, self.of)

    async def play(self, scenario: Scenario, where: Deployment | None = None) -> History:
        """Make a run, on the proposal's deployment or on another."""
        instances = "one instance" if scenario.instances == 1 else "two instances"
        self.begin(f"{scenario.name}, {scenario.setup.era}, {instances}")
        return await self._make(scenario, where)

    async def _make(self, scenario: Scenario, where: Deployment | None = None) -> History:
        before = Counter(self.tracebacks())
        history = await run_one(self.subject, scenario, where or self.where)
        if where is None:
            open_calls = len(waiting_calls(history))
            self.made.append(Made(scenario, len(history.exchanges), open_calls))
        if scenario.setup.era == "legacy":
            self.legacy += Counter(self.tracebacks()) - before
        elif not scenario.at_effects:
            self.raised += Counter(self.tracebacks()) - before
        if isinstance(self.where, remote.Remote) and self.where.is_gone:
            self.report.unanswered += GIVE_UP
        return history

    async def first_call(
        self,
        name: str,
        raised: Callable[[], list[str]],
        era: Era = "modern",
        where: Deployment | None = None,
    ) -> None:
        """Check that there is something to judge.

        Args:
            name: The name of the proposal.
            raised: Returns the tracebacks of the author's exceptions.
            era: The client's era.
            where: Another deployment than the review's.

        Raises:
            CannotJudge: The first call gives nothing, or no effect of it is in the ledger.
        """
        history = await self.play(named("clean-tokyo", era).on_one(), where)
        replies = [event.reply for event in history.events if isinstance(event, Received)]
        first = replies[0]
        died = [event.why for event in history.events if isinstance(event, Crashed)]
        if first.nothing == HUNG:
            seconds = self.extent.hang_seconds
            reason = f"the first call of {name} has no response after {seconds:g} seconds"
            raise CannotJudge(reason, first.message or "")
        if died and first.failed:
            raise CannotJudge(f"{died[0]} at the first call of {name}", "".join(raised()[:1]))
        if (first.failed or first.is_error) and raised():
            raise CannotJudge(f"the first call of {name} raises", raised()[0])
        if first.code == METHOD_NOT_FOUND:
            raise CannotJudge(f"{name} takes no tool calls: {first.message}")
        if first.failed or first.is_error:
            listing = replace(named("clean-tokyo", era), name="tools/list", script=(ListTools(),))
            listed = await self.play(listing.on_one(), where)
            got = [event for event in listed.events if isinstance(event, Received)]
            tools = [tool for each in got for tool in each.reply.tools]
            if tools and TOOL not in tools:
                only = ", ".join(tools)
                raise CannotJudge(
                    f"{name} has no tool {TOOL!r} to be reviewed, only {only}; {BEGIN}"
                )
        reported = any(reply.is_result and not reply.is_error for reply in replies)
        if reported and not any(isinstance(event, Effect) for event in history.events):
            raise CannotJudge(
                f"the first call of {name} reports, and none of its effects is in the ledger; write"
                " them to the table `effects` of the file that MRTR_LEDGER or --ledger names"
            )

    async def look(self, scenarios: Iterable[Scenario]) -> None:
        """Make runs, and hold each against the contract."""
        for scenario in scenarios:
            if self.report.stopped_early:
                return
            if self.report.unanswered and len(scenario.callers) >= ROOM:
                # Each request may take nearly as long as a hang.
                self.report.left_out[_TOO_MANY] += 1
                continue
            self.hold(await self.play(scenario))

    async def everything(self, before: Iterable[Scenario] = ()) -> None:
        """Make all runs, and shrink the findings. Only the `deadly` cases are left.

        The runs are the schedules, the cases, the calls under faults, and those drawn at random.

        Args:
            before: Cases that are held against the contract before all others.
        """
        report = self.report
        extent = self.extent
        named, missing = _named(self.subject)
        before = list(before)
        slugs = self._able(named)
        for cell in missing:
            self._leave_out(cell)
        cases = self._able(map(self.fit, systematic()))
        self.deadly = [each for each in cases if each.is_deadly]
        cases = [each for each in cases if not each.is_deadly]
        drawn = () if extent.only else islice(at_random(extent.seed), extent.drawn)
        at_last = self._able(map(self.fit, drawn))
        if extent.only:
            report.left_out[_NOT_NAMED if extent.bound else _NOT_NAMED + _NO_RISKS] = 0
        await self._measure()
        cases = self._in_pace(cases, CASE_SECONDS)
        slugs = self._in_pace(slugs, SCHEDULE_SECONDS)
        at_last = self._in_pace(at_last, DRAWN_SECONDS)
        controls = self._controls()
        under = len(self.setups) if extent.bound else 0
        parts = (before, controls, slugs, cases, at_last)
        self.of = report.runs + sum(map(len, parts)) + under
        # The most revealing runs come first: a broken server has its first finding within seconds.
        quick = [*takewhile(lambda case: case.name != LONG_FROM, cases)]
        await self.look(controls)
        await self.look(before)
        await self.look(quick)
        await self._look_at_tasks()
        await self._look_by_name(slugs)
        await self.look(cases[len(quick) :])
        for setup in self.setups if extent.bound else ():
            if not report.stopped_early:
                await self._explore(Explored(self.subject, setup, extent.bound))
        await self.look(at_last)
        if report.stopped_early:
            report.left_out[_STOPPED_EARLY] += 0
            return
        await self._make_smaller()

    async def _look_at_tasks(self) -> None:
        """Judge the tasks of a server that hands some out to clients that declare the extension."""
        if not self.report.tasks_seen or self.subject.option.takes_tasks:
            return  # an option that takes tasks has these among its schedules
        runs = [SCHEDULES[slug].modern for slug in TASKS]
        both = [each for run in runs if run is not None for each in (run.on_one(), run)]
        await self.look(self._able(both))

    def _controls(self) -> list[Scenario]:
        """Return the clean calls that have to end well.

        A server that refuses every state withstands every attack. The first call was clean, too,
        but was not held against the contract.
        """
        clean = [SCHEDULES[slug].of(era) for slug in CONTROLS for era in ERAS]
        on_one = [each.on_one() for each in clean if each is not None]
        calls = [each for each in on_one if self.where.cannot(each) is None]
        newest = [call for call in calls if call.setup.era == "modern"]
        return newest or calls

    async def _measure(self) -> None:
        """Measure how long a request with one effect takes."""
        scenario = named("unknown-place", self.measured_by).on_one()
        times: list[float] = []
        async with self.where.started(self.subject, scenario) as instances:
            for _ in range(MEASURED):
                began = anyio.current_time()
                await instances.send(0, Request("Atlantis", era=self.measured_by))
                times.append(anyio.current_time() - began)
        self.pace = Pace(min(times))

    def _in_pace(self, scenarios: Sequence[Scenario], seconds: float) -> list[Scenario]:
        """Return the runs that are tried of a slow server, and count those that are left out."""
        some, parts, left_out = self.pace.within(scenarios, seconds)
        if parts:
            self.report.left_out[f"in part, {self.pace}"] += parts
        if left_out:
            self.report.left_out[str(self.pace)] += left_out
        return some

    async def _look_by_name(self, slugs: Sequence[Scenario]) -> None:
        """Make the runs of the schedules, and store the observation of each."""
        report = self.report
        for done, scenario in enumerate(slugs):
            if report.stopped_early:
                report.left_out[_STOPPED_EARLY] = len(slugs) - done
                return
            history = await self.play(scenario)
            self.hold(history)
            report.observations.append(guarantees.judge_history(history, report.own))
            if scenario.name in ALSO and scenario.setup.era == "modern":
                report.shown[scenario.name] = anomalies_in(history)
                report.histories[scenario.name] = history

    def hold(self, history: History) -> None:
        """Hold a run against the contract, and report rules that are broken for the first time."""
        known = {*self.report.first}
        self.report.hold(history)
        for finding in self.report.findings:
            if finding.rule not in known:
                self.on_finding(finding)

    async def _make_smaller(self) -> None:
        """Shrink the findings."""
        report = self.report
        begun = report.runs
        requests = self.pace.shrink_requests
        for rule, finding in list(report.first.items()):
            if report.runs - begun >= SMALLER_RUNS:
                report.left_out[_NOT_SMALLER] += 0
                return
            if finding.follows:
                continue
            smaller = await smallest(self.play, finding, report.tools, requests=requests)
            smaller = await self._on_its_own(smaller, finding)
            if smaller.rule != rule:  # another rule is broken there, which may be reported already
                del report.first[rule]
                smaller = report.first.get(smaller.rule, smaller)
            report.first[smaller.rule] = smaller

    async def _on_its_own(self, finding: Finding, whole: Finding) -> Finding:
        """Return a shrunk finding of a whole run as fresh servers show it."""
        fresh = self.fresh
        if fresh is None or self.alone >= FRESH_RUNS:
            return replace(finding, set_up=None if fresh else False)
        scenario = whole.history.scenario
        until = next(
            (at for at, made in enumerate(self.made, start=1) if made.scenario is scenario), 0
        )

        async def play(scenario: Scenario) -> History:
            self.alone += 1
            async with fresh() as servers:
                return await self.play(scenario, servers)

        try:
            requests = self.pace.shrink_requests
            made = self.made[:until]
            return await on_its_own(play, finding, whole, made, self.report.tools, requests)
        except CannotStart:  # it is as it was found
            return finding

    def _leave_out(self, cell: Cell) -> None:
        """Count a run that is asked for and lacks a version to deploy."""
        if self.extent.only and cell.scenario.name not in self.extent.only:
            return
        why = self.where.cannot(cell.scenario) or f"with a redeploy: {cell.missing}"
        self.report.left_out[why] += 1

    def _able(self, scenarios: Iterable[Scenario]) -> list[Scenario]:
        """Return the runs that are asked for and possible there. Count the others as left out."""
        found: list[Scenario] = []
        for scenario in scenarios:
            if self.extent.only and scenario.name not in self.extent.only:
                continue
            why = self.where.cannot(scenario)
            if why is None:
                found.append(scenario)
            else:
                self.report.left_out[why] += 1
        return found

    async def _explore(self, found: Explored) -> None:
        """Make a call under every set of faults up to a bound, and store its anomalies."""
        report = self.report
        scenario = found.scenario
        is_first = report.explored is None
        if is_first:
            report.explored = found
        else:
            report.otherwise.append(found)

        async def play(scenario: Scenario) -> History:
            self.begin(names_of(scenario.faults) or "no fault")
            return await self._make(scenario)

        def cannot(name: str) -> str | None:
            return self.where.cannot(scenario.under((Fault(1, 1, name),)))

        can = [name for name in self.kinds if cannot(name) is None]
        missing = partial(not_tried, self.subject, scenario, kinds=tuple(self.kinds), cannot=cannot)
        async for history in explore(self.subject, scenario, found.bound, play, can):
            shown = anomalies_in(history)
            faults = history.scenario.faults
            found.take(faults, shown)
            self.hold(history)
            if is_first and any(faults in found.counterexamples[name] for name in shown):
                report.histories[names_of(faults)] = history
            if not faults:
                found.not_tried = missing(strikes=history.strikes)
                every = [cannot(each.name) for each in possible(self.subject, history, self.kinds)]
                self.of += every.count(None)
                if is_first:
                    report.left_out.update(filter(None, every))
            replies = [event.reply for event in history.events if isinstance(event, Received)]
            if any(reply.nothing == HUNG for reply in replies):
                report.unanswered += 1
            if report.stopped_early:
                return


_NOT_NAMED = "that --only does not name"
_NO_RISKS = ", those that look for risks among them"
_TOO_MANY = f"of over {ROOM:,} calls, since in another run a request had no response"
_NOT_SMALLER = f"to make findings smaller, after {SMALLER_RUNS} of them"
_STOPPED_EARLY = f"since in {GIVE_UP} others a request had no response, or the server was gone"


async def try_file(path: Path) -> None:
    """Make two calls of a stranger's file in a process of its own.

    For commands that run it in theirs: a file that hangs, or ends its process, is told here.

    Raises:
        CannotLoad, CannotJudge: See `check_file`.
    """
    option = option_in(path)
    try:
        with scratch() as folder, quiet_servers():
            async with Children(option, folder).running() as children:
                review = _Review(Report(str(path)), children, Extent(), _ignore, Subject(option))
                await review.first_call(path.name, lambda: children.raised)
                for event in (await review.play(named("clean-springfield").on_one())).events:
                    if isinstance(event, Crashed):
                        raise CannotJudge(f"{event.why} at a later request to {path.name}")
                    if isinstance(event, Received) and event.reply.nothing == HUNG:
                        raise CannotJudge(f"{path.name} does not answer a later request")
    except CannotStart as error:
        raise CannotJudge(error.reason, error.details) from error


async def check_file(
    path: Path,
    extent: Extent = Extent(),
    on_begin: Begun = _ignore,
    on_option: Told = _ignore,
    on_finding: OnFinding = _ignore,
) -> Report:
    """Review the option in a file, on one process and on two.

    Args:
        path: The file.
        extent: How thoroughly the file is reviewed.
        on_begin: Called with the name of each run of the proposal before it is made, and with the
            number of runs.
        on_option: Called with the name of each run of an option that the proposal is compared with.
        on_finding: Called with each broken rule as soon as it is found.

    Raises:
        CannotLoad: There is no such file.
        CannotJudge: It has no server, or its first call gives nothing.
    """
    option = option_in(path)
    report = Report(str(path), option.guarantees, hang_seconds=extent.hang_seconds)
    try:
        with scratch() as folder, quiet_servers():
            async with Children(
                option, folder, hang_seconds=extent.hang_seconds
            ).running() as children:
                review = _Review(report, children, extent, on_begin, Subject(option))
                review.on_finding = on_finding
                review.fresh = partial(_servers, option, extent)
                review.tracebacks = lambda: children.raised
                await review.first_call(path.name, lambda: children.raised)
                first: list[Scenario] = []
                if not extent.only:
                    # Before any run lets time pass: these states must be young.
                    first = await _from_elsewhere(review)
                    if not first:
                        why = "with a state of another server: no question came with a state"
                        report.left_out[why] = 1
                await review.everything(first)
                # An old client may be refused with any error.
                is_refused = all(each.history.era == "modern" for each in report.findings)
                expected = review.legacy if is_refused else Counter[str]()
                report.raised = _by_itself(review.raised, Counter(children.raised) - expected)
                if review.pace.is_slow:
                    report.left_out[f"of batches of calls, {review.pace}"] += 0
                elif not (extent.only or report.stopped_early):
                    await _hold_kept(review, children)
                await review.look(review.deadly)
    except CannotStart as error:
        if report.runs < 2:
            raise CannotJudge(error.reason, error.details) from error
        report.left_out[f"since {error.reason}"] = 0
    return await _judged(report, on_option)


async def check_url(
    urls: Sequence[str],
    ledger_file: Path,
    extent: Extent = Extent(),
    on_begin: Begun = _ignore,
    on_option: Told = _ignore,
    on_finding: OnFinding = _ignore,
) -> Report:
    """Review a running server.

    Args:
        urls: The MCP endpoints of its instances; rounds go to them in turn, where a schedule or a
            fault is about several.
        ledger_file: The file in which they record effects.
        extent: See `check_file`.
        on_begin: See `check_file`.
        on_option: See `check_file`.
        on_finding: See `check_file`.

    Raises:
        CannotReach: Nothing answers there.
        CannotJudge: Its first call gives nothing.
        LedgerUnusable: The file is not a ledger.
    """
    eras = await _common_eras(urls, extent.hang_seconds)
    ledger = SqliteLedger(ledger_file)
    target = ",".join(urls)
    alone = len(urls) == 1
    report = Report(target, hang_seconds=extent.hang_seconds)
    clients = " and ".join(remote.VERSIONS[era] for era in eras)
    report.judged = f"by clients of {clients}, on {'one instance' if alone else 'two instances'}"

    def fit(scenario: Scenario) -> Scenario:
        mine = for_one_user(scenario)
        return mine.on_one() if alone else mine

    fleets: tuple[Fleet, ...] = ("one",) if alone else ("sticky", "free")
    # Risks are those of the first; a client that stops sends nothing that these do not send.
    policies: tuple[Policy, ...] = ("resends", "calls again")
    review = _Review(
        report,
        remote.Remote(urls, ledger, extent.hang_seconds, eras),
        extent,
        on_begin,
        Subject(Option("?", target, Path(target))),
        fit,
        NAMED,  # any client may call a running server, also one that sends more than was asked
        [calling(fleet=fleet, policy=each, era=eras[0]) for fleet in fleets for each in policies],
    )
    review.on_finding = on_finding
    review.measured_by = eras[0]
    with quiet_servers():
        for url in urls:
            one = remote.Remote([url], ledger, extent.hang_seconds)
            await review.first_call(url, list, eras[0], one)
        await review.everything()
    return await _judged(report, on_option)


async def _common_eras(urls: Sequence[str], hang_seconds: float) -> list[Era]:
    """Return the eras that all instances speak.

    Raises:
        CannotReach: There is none, or nothing answers.
    """
    with quiet_servers():
        spoken = [await remote.eras_of(url, hang_seconds) for url in urls]
    eras: list[Era] = [era for era in ERAS if all(era in each for each in spoken)]
    if not eras:
        raise remote.CannotReach(
            "these instances speak no era in common; start the same server twice"
        )
    return eras


async def _from_elsewhere(review: _Review) -> list[Scenario]:
    """Return cases with states of the same server under another ledger and other keys.

    Anybody guesses some of those keys. The server need not start with them, or hand out states.
    """
    option = review.subject.option
    found: list[Scenario | None] = []
    for key in (None, *GUESSED):
        with suppress(CannotStart):
            async with _servers(option, review.extent, key) as servers:
                history = await review.play(named("clean-springfield").on_one(), servers)
                found.append(elsewhere(history))
    return [each for each in found if each is not None]


@asynccontextmanager
async def _servers(
    option: Option, extent: Extent, key: str | None = None
) -> AsyncGenerator[Children]:
    """Start the same server with another ledger, and with a new key if `key` is None."""
    with scratch() as folder:
        servers = Children(option, folder, hang_seconds=extent.hang_seconds, key=key)
        async with servers.running():
            yield servers


def option_in(path: Path) -> Option:
    """Return the option in a file, without running it.

    Raises:
        CannotLoad: There is no such file.
    """
    require_file(path)
    return option_at(path)


def _by_itself(calm: Iterable[str], raised: Iterable[str]) -> list[str]:
    """Return tracebacks that have a cause of their own, each once.

    A failed effect or a client that left is no such cause.

    Args:
        calm: The tracebacks of runs in which nothing goes wrong at an effect.
        raised: The tracebacks of all runs.
    """
    left = ("\nanyio.ClosedResourceError", "\nanyio.BrokenResourceError")
    own = [each for each in raised if not any(why in each for why in MADE_TO_FAIL)]
    return [
        each for each in dict.fromkeys((*calm, *own)) if not f"\n{each}".rstrip().endswith(left)
    ]


def _named(subject: Subject) -> tuple[list[Scenario], list[Cell]]:
    """Return the schedules on one instance and on two, and the runs that lack a version to deploy.

    A schedule that deploys a version is played on one instance if that is enough.
    """
    made, missing = (_once(found) for found in split([subject]))
    return [cell.scenario for cell in made], missing


def _once(found: Sequence[Cell]) -> list[Cell]:
    alone = {cell.scenario.name for cell in found if cell.deployment == "one"}
    return [
        cell
        for cell in found
        if cell.deployment == "one" or not (cell.scenario.changes and cell.scenario.name in alone)
    ]


async def _hold_kept(review: _Review, children: Children) -> None:
    """Check how much a process holds of calls with one outcome, for each outcome and era."""
    for era in ERAS:
        async for outcome, came in batches.held(review.subject, children, era, review.begin):
            history = await review.play(batches.one_call(outcome, era))
            problem = rules.NOTHING_IS_KEPT.broken(None, "about as much as before", came)
            review.report.first.setdefault(problem.property, Finding(history, problem))


async def _judged(report: Report, on_option: Told) -> Report:
    if report.own is not None:
        declared = guarantees.declared(report.own)
        report.broken = guarantees.find_broken(report.observations, declared, report.own)
    if report.explored is not None:
        report.risks = risks(report.explored, report.shown) + report.risks
    if not report.stopped_early:  # else hardly anything was seen
        found = await nearest(report.observations, on_option)
        if NEAR * len(found.differs) <= len(report.observations):
            report.nearest = found
    return report


_played: dict[tuple[str, str, str], Observation] = {}
"""Observations of the options, by schedule, era and name; each process plays them once."""


async def nearest(observations: Sequence[Observation], on_option: Told = _ignore) -> Nearest:
    """Return the option with the fewest differences, on one instance.

    The option with the fewest so far is the one that is played on. When one is through, every other
    has as many already, so most of what they do is never looked at.

    Args:
        observations: The observations of the proposal.
        on_option: Called with the name of each run of an option before it is made.
    """
    own = {(seen.schedule, seen.era): seen for seen in observations if seen.deployment == "one"}
    # An option that needs an engine takes longer to play than the whole check of a proposal.
    subjects = [subject for subject in all_subjects() if subject.option.extra is None]
    found = {subject.name: list[tuple[Observation, Observation]]() for subject in subjects}
    left = {
        subject.name: [
            cell
            for cell in reversed(cells([subject], deployments=("one",)))
            if (cell.scenario.name, cell.scenario.setup.era) in own
        ]
        for subject in subjects
    }
    while True:
        name = min(found, key=lambda name: len(found[name]))
        if not left[name]:
            return Nearest(name, found[name])
        cell = left[name].pop()
        key = (cell.scenario.name, cell.scenario.setup.era, name)
        if key not in _played:
            (_played[key],) = await run([cell], on_option)
        here = own[key[:2]]
        there = _played[key]
        if _behaviour(here) != _behaviour(there):
            found[name].append((here, there))


def _behaviour(seen: Observation) -> tuple[Any, ...]:
    return (seen.outcome, seen.most("audit"), seen.most("bill"), tuple(seen.questions))
