"""Drive the transitions of the model on the real servers: `python -m tests.model [PART OF A NAME]`.

Seconds are those of the processor.
"""

import sys
import time
from collections.abc import Awaitable

import anyio

from tests.model.covering import Driven
from tests.model.covering import drive as drive_all
from tests.model.test_driven import WHOLE, graph_of
from tests.model.test_driven_extras import NEAREST, PAIRS, SAMPLE, SEED
from tests.model.test_driven_extras import graph_of as graph_with


async def show(name: str, driving: Awaitable[Driven]) -> None:
    """Print a line, with the first difference."""
    begun = time.process_time()
    found = await driving
    seconds = time.process_time() - begun
    whole = "all" if found.driven == found.transitions else f"{found.driven}"
    counted = f"{found.transitions}" if found.is_whole else f"more than {found.transitions}"
    numbers = f"{counted}, {whole}, {found.steps}, {found.runs}, {seconds:.0f}"
    print(f"{name}: {numbers}: {found.differs or 'nothing differs'}", flush=True)


async def main(words: list[str]) -> None:
    """Print a line for each mechanism, and for each with an extra."""
    print("mechanism / client or extra: transitions, driven, actions, runs, seconds: difference")
    for mechanism, policy in WHOLE.items():
        name = f"{mechanism} / {policy}"
        if all(word in name for word in words):
            await show(name, drive_all(graph_of(mechanism, "ignores keys")))
    for name, pair in PAIRS.items():
        if all(word in name for word in words):
            driving = drive_all(graph_with(*pair), nearest=NEAREST, most=SAMPLE, seed=SEED)
            await show(name, driving)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
