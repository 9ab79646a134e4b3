"""Reviews of a file and of a running server, from their start to their report.

A proposal is a Python file with a `server` (or its own `build_server()`), an importable module, or
the URL of a running server in any language that keeps the contract (docs/CONTRACT.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from pathlib import Path

from mcp_types import METHOD_NOT_FOUND

from mrtr_options.errors import UsageError
from mrtr_options.review.bench.deployments import quiet_servers, remote, scratch
from mrtr_options.review.bench.deployments.children import HANG_SECONDS, CannotStart, Children
from mrtr_options.review.bench.faults import ASKED, EXPLORED, PLAYABLE
from mrtr_options.review.bench.history import Crashed, Effect, Received
from mrtr_options.review.bench.messages import ERAS, HUNG, Era
from mrtr_options.review.bench.policies import POLICIES
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.scenario import USUAL_SETUP, Fleet, Scenario, calling
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.steps import ListTools
from mrtr_options.review.bench.subjects import Subject, subject_named
from mrtr_options.review.bench.world.ledger import MADE_TO_FAIL
from mrtr_options.review.check.cases import for_one_user
from mrtr_options.review.check.compared import (
    AGAIN,
    lost_result,
    measured,
    measured_of_ours,
    nearest,
)
from mrtr_options.review.check.plan import Extent, Proposal
from mrtr_options.review.check.report import Report
from mrtr_options.review.check.review import NOBODY, Listeners, Review
from mrtr_options.review.check.second_bench import second_bench
from mrtr_options.review.check.states import elsewhere
from mrtr_options.review.explore import NOT_TRIED, Play
from mrtr_options.tool.catalogue import (
    BEGIN,
    CannotLoad,
    Option,
    option_at,
    option_named,
    require_file,
    runnable,
)
from mrtr_options.tool.notation import DEFAULT_FOR_ALL, NAMED, SINGLE_USE
from mrtr_options.tool.server import TOOL
from mrtr_options.tool.weather import SqliteLedger

GUESSED = "", "secret"
"""Keys that anybody guesses."""

MOST_DIFFERENT = 1 / 4
"""The most similar option is named if at most this share of the runs differs."""

USUAL = Extent()
"""The extent of a review for which nothing else is asked."""


class CannotJudge(UsageError):
    """A proposal that gives nothing to judge.

    The details are the author's traceback, or the server's position.
    """


async def check_target(
    target: str,
    ledger_file: str | None,
    extent: Extent = USUAL,
    listeners: Listeners = NOBODY,
) -> Report:
    """Review a proposal.

    Args:
        target: A file, a module, an option, a URL, or several with commas.
        ledger_file: The file in which a running server records its effects.
        extent: How thoroughly the proposal is reviewed.
        listeners: Hear of the review while it goes on.

    Raises:
        CannotLoad, CannotReach, CannotJudge, LedgerUnusable: The target cannot be run.
    """
    if not target.startswith(remote.URL):
        return await check_file(file_of(target), extent, listeners)
    if ledger_file is None:
        raise CannotLoad("a running server needs --ledger FILE, the file it counts effects in")
    urls = [url.strip() for url in target.split(",")]
    if strange := [url for url in urls if not remote.is_url(url)]:
        raise CannotLoad(
            f"{strange[0]!r} is not a URL; write http://HOST:PORT/mcp, or several with commas"
        )
    return await check_url(urls, Path(ledger_file), extent, listeners)


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
    spec = _find_module(target)
    if spec is None or spec.origin is None or not Path(spec.origin).is_file():
        if Path(target).is_dir():
            require_file(Path(target))
        raise CannotLoad(
            f"{target!r} is not an option, a file, a module or a URL;"
            " name a Python file with a `server` in it"
        )
    return Path(spec.origin)


def _find_module(name: str) -> ModuleSpec | None:
    """Find a module. The packages that it is in are not imported: their code is the author's."""
    first, *parts = name.split(".")
    spec = None
    with suppress(ImportError, ValueError):
        spec = find_spec(first)
    for part in parts:
        folders = spec.submodule_search_locations if spec is not None else None
        spec = PathFinder.find_spec(part, folders or [])
    return spec


async def check_first_call(
    play: Play,
    name: str,
    hang_seconds: float,
    raised: Callable[[], list[str]] = list,
    era: Era = "modern",
) -> None:
    """Check that there is something to judge.

    Args:
        play: Makes a run.
        name: The name of the proposal.
        hang_seconds: The longest time for one request.
        raised: Returns the tracebacks of the author's exceptions.
        era: The client's era.

    Raises:
        CannotJudge: The first call gives nothing, or no effect of it is in the ledger.
    """
    history = await play(named("clean-tokyo", era).on_one())
    replies = [event.reply for event in history.events if isinstance(event, Received)]
    first = replies[0]
    died = [event.why for event in history.events if isinstance(event, Crashed)]
    if first.nothing == HUNG:
        reason = f"the first call of {name} has no response after {hang_seconds:g} seconds"
        raise CannotJudge(reason, first.message or "")
    if died and first.failed:
        raise CannotJudge(f"{died[0]} at the first call of {name}", "".join(raised()[:1]))
    if (first.failed or first.is_error) and raised():
        raise CannotJudge(f"the first call of {name} raises", raised()[0])
    if first.code == METHOD_NOT_FOUND:
        raise CannotJudge(f"{name} takes no tool calls: {first.message}")
    if first.failed or first.is_error:
        listing = replace(named("clean-tokyo", era), name="tools/list", script=(ListTools(),))
        listed = await play(listing.on_one())
        got = [event for event in listed.events if isinstance(event, Received)]
        tools = [tool for each in got for tool in each.reply.tools]
        if tools and TOOL not in tools:
            only = ", ".join(tools)
            raise CannotJudge(f"{name} has no tool {TOOL!r} to be reviewed, only {only}; {BEGIN}")
    reported = any(reply.is_result and not reply.is_error for reply in replies)
    if reported and not any(isinstance(event, Effect) for event in history.events):
        raise CannotJudge(
            f"the first call of {name} reports, and none of its effects is in the ledger; write"
            " them to the table `effects` of the file that MRTR_LEDGER or --ledger names"
        )


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
                play = partial(run, Subject(option), where=children)
                await check_first_call(play, path.name, HANG_SECONDS, lambda: children.raised)
                history = await play(named("clean-springfield").on_one())
                for event in history.events:
                    if isinstance(event, Crashed):
                        raise CannotJudge(f"{event.why} at a later request to {path.name}")
                    if isinstance(event, Received) and event.reply.nothing == HUNG:
                        raise CannotJudge(f"{path.name} does not answer a later request")
    except CannotStart as error:
        raise CannotJudge(error.reason, error.details) from error


async def check_file(
    path: Path,
    extent: Extent = USUAL,
    listeners: Listeners = NOBODY,
) -> Report:
    """Review the option in a file, on one process and on two.

    Args:
        path: The file.
        extent: How thoroughly the file is reviewed.
        listeners: Hear of the review while it goes on.

    Raises:
        CannotLoad: There is no such file.
        CannotJudge: It has no server, or its first call gives nothing.
    """
    option = option_in(path)
    report = Report(str(path), option.guarantees)
    proposal = Proposal(
        Subject(option),
        kinds=[*EXPLORED, *extent.also],
        setups=_clients(extent),
        fresh=partial(_servers, option, extent),
    )
    try:
        async with AsyncExitStack() as stack:
            stack.enter_context(quiet_servers())
            children = await stack.enter_async_context(_servers(option, extent))
            review = Review(proposal, children, extent, report, listeners)
            seconds = extent.hang_seconds
            await check_first_call(review.play, path.name, seconds, lambda: children.raised)
            first: list[Scenario] = []
            if not extent.only:
                # Before any run lets time pass: these states must be young.
                first = await _from_elsewhere(review)
                if not first:
                    why = "with a state of another server: no question came with a state"
                    report.leave_out(why, 1)
            plan = await review.make_plan(first)
            if plan.second_part and not extent.only:
                bench = second_bench(review.proposal.subject, extent.hang_seconds, plan.second_part)
                review.second = await stack.enter_async_context(bench)
            await review.make_runs(plan)
            report.raised = _unexpected(review)
            if review.pace.is_slow:
                report.leave_out(f"of batches of calls, {review.pace}")
            await review.look(plan.deadly)
            await _compare(review)
            if report.compared:
                report.compared[0].named = await _guarded(option, extent)
    except CannotStart as error:
        if report.holds:  # by what was tried until then
            raise CannotJudge(error.reason, error.details) from error
        report.leave_out(f"since {error.reason}")
    return await _judged(report, listeners)


def _clients(extent: Extent) -> list[Scenario]:
    """Return the calls that are made under faults: the usual one, and one in other words."""
    calls = [calling()]
    if extent.words == "other":
        calls.append(calling(policy=AGAIN).in_words("other"))
    return calls


async def check_url(
    urls: Sequence[str],
    ledger_file: Path,
    extent: Extent = USUAL,
    listeners: Listeners = NOBODY,
) -> Report:
    """Review a running server.

    Args:
        urls: The MCP endpoints of its instances; rounds go to them in turn, where a schedule or a
            fault is about several.
        ledger_file: The file in which they record effects.
        extent: How thoroughly the proposal is reviewed.
        listeners: Hear of the review while it goes on.

    Raises:
        CannotReach: Nothing answers there.
        CannotJudge: Its first call gives nothing.
        LedgerUnusable: The file is not a ledger.
    """
    eras = await _common_eras(urls, extent.hang_seconds)
    ledger = SqliteLedger(ledger_file)
    target = ",".join(urls)
    alone = len(urls) == 1
    report = Report(target)
    clients = " and ".join(remote.VERSIONS[era] for era in eras)
    report.judged = f"by clients of {clients}, on {'one instance' if alone else 'two instances'}"

    def fit(scenario: Scenario) -> Scenario:
        mine = for_one_user(scenario)
        return mine.on_one() if alone else mine

    fleets: tuple[Fleet, ...] = ("one",) if alone else ("sticky", "free")
    # Risks are those of the first; a client that stops sends nothing that these do not send.
    again = [name for name, policy in POLICIES.items() if not policy.stops]
    policies = sorted(again, key=lambda name: name != USUAL_SETUP.policy)
    proposal = Proposal(
        Subject(Option("?", target, Path(target))),
        fit,
        # Any client may call a running server, also one that sends more than was asked.
        [name for name in PLAYABLE if name not in ASKED],
        [calling(fleet=fleet, policy=each, era=eras[0]) for fleet in fleets for each in policies],
    )
    where = remote.Remote(urls, ledger, extent.hang_seconds, eras)
    review = Review(proposal, where, extent, report, listeners)
    with quiet_servers():
        for url in urls:
            one = remote.Remote([url], ledger, extent.hang_seconds)
            play = partial(review.play_elsewhere, where=one)
            await check_first_call(play, url, extent.hang_seconds, era=eras[0])
        await review.make_runs(await review.make_plan())
        await _compare(review)
    return await _judged(report, listeners)


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


async def _from_elsewhere(review: Review) -> list[Scenario]:
    """Return cases with states of the same server under another ledger and other keys.

    Anybody guesses some of those keys. The server need not start with them, or hand out states.
    """
    option = review.proposal.subject.option
    scenario = named("clean-springfield").on_one()
    found: list[Scenario | None] = []
    for key in (None, *GUESSED):
        with suppress(CannotStart):
            async with _servers(option, review.extent, key) as servers:
                history = await review.play_elsewhere(scenario, servers)
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


def _unexpected(review: Review) -> list[str]:
    """Return the tracebacks that no fault caused, each once."""
    raised = Counter(review.tracebacks)
    # An old client may be refused with any error.
    is_refused = all(each.history.era == "modern" for each in review.report.breaches)
    expected = review.legacy if is_refused else Counter[str]()
    return _by_itself(review.raised, raised - expected)


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


async def _compare(review: Review) -> None:
    """Measure the proposal for the last table, on its servers."""
    if review.extent.bound and not review.report.stopped_early:
        proposal = review.proposal
        way = await measured(proposal.subject, review.where, proposal.setups[0])
        review.report.compared = [way]


async def _guarded(option: Option, extent: Extent) -> str:
    """Return what a lost result does in a guard that names calls, if the client calls again."""
    if option.extra is not None:  # an engine keeps its calls
        return NOT_TRIED
    from mrtr_options.tool.wrapped import source_of  # few reviews look at a guard

    with scratch() as folder, suppress(CannotLoad, CannotStart):
        file = folder / option.path.name
        file.write_text(source_of(option, (SINGLE_USE, NAMED)), encoding="utf-8")
        guarded = replace(option, path=file)
        async with _servers(guarded, extent) as servers:
            return await lost_result(Subject(guarded), calling(), AGAIN, servers)
    return NOT_TRIED


async def _judged(report: Report, listeners: Listeners) -> Report:
    if not report.stopped_early:  # else hardly anything was seen
        found = await nearest(report.observations, listeners.on_option)
        if found and len(found.differs) <= MOST_DIFFERENT * len(report.observations):
            report.nearest = found
    if report.compared:
        others = [DEFAULT_FOR_ALL]
        if report.nearest:
            others.insert(0, report.nearest.option)
        for name in dict.fromkeys(others):
            if name != report.compared[0].subject:
                report.compared.append(await measured_of_ours(subject_named(name)))
    return report
