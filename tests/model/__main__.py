"""Drive every transition of the model on the real servers: `python -m tests.model`."""

import time

import anyio

from tests.model.test_driven import WHOLE, graph_of
from tests.model.walking import drive


async def main() -> None:
    """Print a line for each mechanism."""
    print("mechanism / client: transitions, driven, actions, runs, seconds, differences")
    for mechanism, policy in WHOLE.items():
        begun = time.perf_counter()
        found = await drive(graph_of(mechanism, "ignores keys"))
        seconds = time.perf_counter() - begun
        numbers = f"{found.transitions}, {found.driven}, {found.steps}, {found.runs}, {seconds:.0f}"
        print(f"{mechanism} / {policy}: {numbers}, {len(found.differs)}", flush=True)
        for difference in found.differs[:1]:
            print(difference)


if __name__ == "__main__":
    anyio.run(main)
