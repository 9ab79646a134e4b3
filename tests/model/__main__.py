"""Drive the transitions of the model on the real servers: `python -m tests.model [PART OF A NAME]`.

Seconds are those of the processor.
"""

import sys
import time
from functools import partial

import anyio

from tests.model.covering import drive
from tests.model.test_driven import WHOLE, graph_of
from tests.model.test_driven_extras import NEAREST, PAIRS, SAMPLE, SEED
from tests.model.test_driven_extras import graph_of as graph_with


async def main(words: list[str]) -> None:
    """Print a line for each mechanism, and for each with an extra."""
    print("mechanism / client or extra: transitions, driven, actions, runs, seconds: difference")
    whole = {
        f"{mechanism} / {policy}": partial(drive, graph_of(mechanism, "ignores keys"))
        for mechanism, policy in WHOLE.items()
    }
    sampled = {
        name: partial(drive, graph_with(*pair), nearest=NEAREST, most=SAMPLE, seed=SEED)
        for name, pair in PAIRS.items()
    }
    for name, driving in (whole | sampled).items():
        if all(word in name for word in words):
            begun = time.process_time()
            found = await driving()
            seconds = time.process_time() - begun
            driven = "all" if len(found.done) == found.transitions else f"{len(found.done)}"
            counted = f"{'' if found.is_whole else 'more than '}{found.transitions}"
            numbers = f"{counted}, {driven}, {found.steps}, {found.runs}, {seconds:.0f}"
            print(f"{name}: {numbers}: {found.differs or 'nothing differs'}", flush=True)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
