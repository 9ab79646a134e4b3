"""One run: a scenario played on a fresh deployment of a subject, and its history.

`run` is the only way to make a history. Knows deployments, the player and the usual client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from mrtr_options.demo.call import User
from mrtr_options.review.bench.client.driver import Driver
from mrtr_options.review.bench.client.player import Player
from mrtr_options.review.bench.deployments import HANG_SECONDS, Deployment, scratch
from mrtr_options.review.bench.deployments.memory import Memory
from mrtr_options.review.bench.history import History
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.tool.catalogue import DURABLE

IN_MEMORY = Memory()

MOST_HUNG = 3
"""The number of requests without a response after which a script is broken off."""


async def run(
    subject: Subject,
    scenario: Scenario,
    where: Deployment = IN_MEMORY,
    *,
    user: User | None = None,
    client: Callable[[Player], Awaitable[None]] | None = None,
) -> History:
    """Make one run.

    Args:
        subject: The subject that is called.
        scenario: The plan of the run.
        where: The deployment, which starts fresh instances for the run.
        user: Answers the questions of whole calls; None to answer as the scenario says.
        client: Makes the call in place of the script and of the usual client.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    async with where.started(subject, scenario) as instances:
        player = Player(scenario, instances, user)
        driver = Driver(player, keyed=subject.keyed, named=subject.is_named)
        if client is not None:
            await client(player)
        else:
            await take_steps(player)
            if not scenario.script:
                await driver.call()
        await player.let_tasks_rest()
        await instances.collect()
        return History(
            subject.name,
            scenario,
            instances.name,
            instances.instances,
            instances.recording.events,
            tuple(driver.attempts),
            frozenset(instances.recording.secrets),
            instances.can_strike,
            tuple(driver.choices),
            driver.gave_up,
        )


async def take_steps(player: Player) -> None:
    """Play the steps of a scenario, until too many requests hang."""
    for step in (*player.scenario.before, *player.scenario.script):
        if player.hung < MOST_HUNG:
            await player.take(step)


async def run_each(subjects: Sequence[Subject], scenario: Scenario) -> list[History]:
    """Make a run of a scenario on each subject, in memory.

    Raises:
        CannotLoad: A subject cannot be run.
    """
    return [await run(subject, scenario) for subject in subjects]


@asynccontextmanager
async def in_memory(
    subjects: Sequence[Subject], *, hang_seconds: float = HANG_SECONDS, versions: Path | None = None
) -> AsyncGenerator[Memory]:
    """Run instances in this process, for many runs that share durable engines.

    Starting an engine takes longer than most runs. The calls of each run are isolated from those of
    all others.

    Args:
        subjects: The subjects to run. Without one on a durable engine nothing is started.
        hang_seconds: See `Memory`.
        versions: See `Memory`.
    """
    engines = {subject.on_temporal for subject in subjects if subject.option.extra == DURABLE}
    names: dict[bool, Callable[[], str]] = {}
    with scratch() as folder:
        async with AsyncExitStack() as held:
            if True in engines:
                from mrtr_options.review.bench.world import temporal  # needs the extra

                names[True] = held.enter_context(temporal.running(folder)).apart
            if False in engines:
                from mrtr_options.sdk.durable.embedded import process  # needs the extra

                url = f"sqlite:///{folder / 'calls.sqlite'}"
                names[False] = (await held.enter_async_context(process(url))).apart

            def database(subject: Subject) -> str | None:
                name = names.get(subject.on_temporal)
                return name() if name is not None and subject.option.extra == DURABLE else None

            yield Memory(hang_seconds=hang_seconds, versions=versions, database=database)
