"""One run from its beginning to its end: a fresh deployment, a schedule played on it, its history.

Knows the deployments on this machine and the player.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from mrtr_options.bench.client import Answerer, agreeable
from mrtr_options.bench.deployments import HANG_SECONDS, quiet_servers
from mrtr_options.bench.history import Era, Event, History
from mrtr_options.bench.memory import MemoryDeployment
from mrtr_options.bench.player import play
from mrtr_options.bench.processes import ProcessDeployment
from mrtr_options.bench.schedules import Call, Schedule
from mrtr_options.bench.scratch import scratch
from mrtr_options.bench.subjects import Column
from mrtr_options.tool.catalogue import DURABLE, Option

Place = Literal["one", "two", "processes"]
"""One instance in memory, two in memory, or two server processes."""


@dataclass(frozen=True)
class Cell:
    """One run to be made."""

    column: Column
    schedule: Schedule
    era: Era
    place: Place = "one"


async def history_of(
    cell: Cell,
    *,
    turns: int = 1,
    foreign: bool = False,
    hang_seconds: float = HANG_SECONDS,
    database: str | None = None,
    user: Answerer | None = None,
    on_event: Callable[[Event], None] = lambda event: None,
) -> History:
    """Make one run on a fresh deployment, with a ledger and a store of its own.

    Args:
        cell: Which.
        turns: How many turns of the event loop an effect takes, in memory.
        foreign: Whether the file may build its server without `build_server`, in memory.
        hang_seconds: How long one request may take before it is called hung.
        database: Where an option that needs a database keeps its calls, in memory; see `one_engine`.
        user: Answers the questions of whole calls; None to answer as the schedule says.
        on_event: Told of each event as it happens.

    Raises:
        CannotLoad: The file is not an option that can be run.
    """
    honours_keys = cell.schedule.honours_keys
    with scratch() as folder:
        if cell.place == "processes":
            deployment = ProcessDeployment(
                cell.column, folder, honours_keys=honours_keys, hang_seconds=hang_seconds
            )
        else:
            deployment = MemoryDeployment(
                cell.column,
                1 if cell.place == "one" else 2,
                folder,
                foreign=foreign,
                honours_keys=honours_keys,
                turns=turns,
                hang_seconds=hang_seconds,
                database=database,
            )
        deployment.recording.on_event = on_event
        with quiet_servers():
            async with deployment.running():
                return await play(cell.schedule, cell.era, deployment, cell.column, user=user)


@asynccontextmanager
async def one_engine(cells: Sequence[Cell]) -> AsyncGenerator[Callable[[], str | None]]:
    """Keep one durable engine for many runs in memory; see `engine_for`.

    Args:
        cells: The runs. Those on processes start engines of their own.
    """
    async with engine_for([cell.column for cell in cells if cell.place != "processes"]) as database:
        yield database


@asynccontextmanager
async def engine_for(subjects: Sequence[Column]) -> AsyncGenerator[Callable[[], str | None]]:
    """Keep one durable engine for many runs in memory; starting it takes longer than most runs.

    Args:
        subjects: What is run. Without one on a durable engine nothing is started.

    Yields:
        Names a database for one run, whose calls are apart from those of all others.
    """
    if not any(subject.option.extra == DURABLE for subject in subjects):
        yield lambda: None
        return
    from mrtr_options.sdk.durable import Engine  # needs the extra

    with scratch() as folder:
        async with Engine.opened(f"sqlite:///{folder / 'calls.sqlite'}") as engine:
            yield engine.apart


async def clean_call(
    option: Option,
    era: Era,
    location: str,
    *,
    user: Answerer | None = agreeable,
    takes_tasks: bool = False,
    on_event: Callable[[Event], None] = lambda event: None,
) -> History:
    """Make one whole call of an option on one instance in memory; nothing goes wrong.

    Args:
        option: Which.
        era: The client's.
        location: The tool's argument. What is guaranteed of the schedules `clean-tokyo` and
            `clean-springfield` holds here too, under the same names.
        user: Answers the questions; None for a client that does not declare elicitation.
        takes_tasks: Whether a modern client takes tasks.
        on_event: Told of each event as it happens.

    Raises:
        CannotLoad: The file is not an option that can be run.
    """
    asks = user is not None
    known = location in ("Tokyo", "Springfield") and asks
    schedule = Schedule(
        f"clean-{location.lower()}" if known else "call",
        "One call, nothing goes wrong.",
        (Call(asks=asks, takes_tasks=takes_tasks),),
        (Call(asks=asks),),
        location=location,
    )
    return await history_of(Cell(Column(option), schedule, era), user=user, on_event=on_event)
