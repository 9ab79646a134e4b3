"""Play many drawn tools, and print each kind of finding with its shortest story."""

import argparse
from contextlib import nullcontext

from hypothesis import HealthCheck, Phase, given, seed, settings

from mrtr_options.sdk import current_request
from tests.sdk.any_engine import engine
from tests.sdk.any_tool import finding, play
from tests.sdk.drawn_stories import Story, kept_stories, stories


def main() -> int:
    """Return 1 if something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sdk", description=__doc__)
    parser.add_argument("examples", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine", action="store_true", help="K and L, on DBOS")
    given_by = parser.parse_args()
    current_request._unprotected_request = current_request.Request  # pyright: ignore[reportPrivateUsage]
    found: dict[str, tuple[int, Story]] = {}
    played = 0

    @seed(given_by.seed)
    @settings(
        max_examples=given_by.examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(kept_stories if given_by.engine else stories)
    def look(story: Story) -> None:
        nonlocal played
        played += 1
        what = finding(story, play_one)
        if what is None:
            return
        first, shortest = found.get(what, (played, story))
        found[what] = first, min(shortest, story, key=lambda each: len(repr(each)))

    with engine() if given_by.engine else nullcontext(play) as play_one:
        look()
    for what, (first, story) in found.items():
        print(f"{what}: first in example {first}\n    {story}")
    print(f"{played} examples, {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
