"""Loses the last response of a call on several servers, and counts the bookings on each."""

import itertools
import secrets
import tempfile
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import anyio
from book_table import build
from mcp_types import ElicitResult
from restaurant import Restaurant

from mrtr_options import sdk
from mrtr_options.sdk.testing import Losing, Policy, call_as_client, client, served

SETTINGS = sdk.Settings(keys=[secrets.token_bytes(32)])  # the same for all instances
ARGUMENTS: dict[str, Any] = {"guest": "Ada", "party": 2, "reference": secrets.token_hex(8)}

ROWS: dict[str, tuple[Policy, dict[str, Any] | None, int]] = {
    "no guard, the client calls again": ("calls again", None, 1),
    "no guard, the client resends": ("resends", None, 1),
    "guard without a name, the client calls again": ("calls again", {}, 1),
    "guard without a name, the client resends": ("resends", {}, 1),
    "guard and name, the client calls again": (
        "calls again",
        {"call": "reference", "call_is_secret": True},
        1,
    ),
    "guard and name on two instances, the client calls again": (
        "calls again",
        {"call": "reference", "call_is_secret": True},
        2,
    ),
}
"""What the client does, how the guard is made, and how many instances there are."""


async def user(context: Any, params: Any) -> ElicitResult:
    """Accept each form with its last choice."""
    ((name, field),) = params.requested_schema["properties"].items()
    return ElicitResult(action="accept", content={name: field["enum"][-1]})


async def bookings(
    policy: Policy, guard: dict[str, Any] | None, instances: int, unique: bool
) -> int:
    """Count the bookings of a call whose third response, the last one, is lost."""
    with tempfile.TemporaryDirectory() as folder:
        restaurant = Restaurant(str(Path(folder, "bookings.sqlite")), unique=unique)
        async with AsyncExitStack() as stack:
            urls: list[str] = []
            for _ in range(instances):
                store = stack.enter_context(closing(sdk.SqliteStore(f"{folder}/rounds.sqlite")))
                wrappers = [] if guard is None else [sdk.single_use(store, **guard)]
                server = build(restaurant, *wrappers, settings=SETTINGS)
                urls.append(await stack.enter_async_context(served(server)))
            losing = Losing([3], turns=itertools.cycle(urls))
            await call_as_client(
                policy, lambda: client(urls[0], user, losing), "book_table", ARGUMENTS
            )
        return len(restaurant.bookings())


async def main() -> None:
    print(f"{'':56} unique  not unique")  # a guest and a time, at the destination
    for name, row in ROWS.items():
        counts = [await bookings(*row, unique) for unique in (True, False)]
        print(f"{name:56} {counts[0]:6}  {counts[1]:10}")


if __name__ == "__main__":
    anyio.run(main)
