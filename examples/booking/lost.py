"""Loses the last response of a call on several servers, and counts the bookings on each."""

import secrets
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio
from book_table import build
from mcp_types import ElicitResult
from restaurant import Restaurant

from mrtr_options import sdk
from mrtr_options.sdk.testing import Losing, client, served


async def user(context: Any, params: Any) -> ElicitResult:
    """Accept each form with its last choice."""
    ((name, field),) = params.requested_schema["properties"].items()
    return ElicitResult(action="accept", content={name: field["enum"][-1]})


ARGUMENTS: dict[str, object] = {"guest": "Ada", "party": 2}


async def resends(urls: list[str], losing: Losing) -> None:
    """Call as a client that resends a lost round, on a new connection to the next instance."""
    turns = iter(urls * 10)
    async with sdk.ResumingClient(lambda: client(next(turns), user, losing)) as caller:
        await caller.call_tool("book_table", ARGUMENTS)


async def calls_again(urls: list[str], losing: Losing, key: str | None = None) -> None:
    """Call as a host whose client gives up, and whose model calls the tool again."""
    for attempt in range(2):
        resuming = sdk.ResumingClient(
            lambda: client(urls[0], user, losing), honours_keys=key is not None, attempts=1
        )
        try:
            async with resuming as caller:
                await caller.call_tool("book_table", ARGUMENTS, key=key)
        except sdk.Unanswered:
            assert attempt == 0  # the first attempt loses its result; the second gets one


async def calls_again_with_a_key(urls: list[str], losing: Losing) -> None:
    """Call twice, with one call key that says that both mean the same call."""
    await calls_again(urls, losing, sdk.new_call_key())


async def bookings(client: Callable[..., Any], guard: bool, instances: int, unique: bool) -> int:
    """Count the bookings of a call whose third response, the last one, is lost."""
    settings = sdk.Settings(keys=[secrets.token_bytes(32)])  # the same for all instances
    with tempfile.TemporaryDirectory() as folder:
        restaurant = Restaurant(str(Path(folder, "bookings.sqlite")), unique=unique)
        async with AsyncExitStack() as stack:
            urls: list[str] = []
            for _ in range(instances):
                store = sdk.SqliteStore(str(Path(folder, "rounds.sqlite")))
                stack.callback(store.close)
                wrappers = [sdk.single_use(store)] if guard else []
                server = build(restaurant, *wrappers, settings=settings)
                urls.append(await stack.enter_async_context(served(server)))
            await client(urls, Losing([3]))
        return len(restaurant.bookings())


ROWS: dict[str, tuple[Any, bool, int]] = {
    "no guard, the client resends": (resends, False, 1),
    "guard, the client resends": (resends, True, 1),
    "guard on two instances, the client resends to the other": (resends, True, 2),
    "guard, the tool is called again": (calls_again, True, 1),
    "guard, the tool is called again with the call's key": (calls_again_with_a_key, True, 1),
}


async def main() -> None:
    print(f"{'':56} unique  not unique")  # a guest and a time, at the destination
    for name, (caller, guard, instances) in ROWS.items():
        counts = [await bookings(caller, guard, instances, unique) for unique in (True, False)]
        print(f"{name:56} {counts[0]:6}  {counts[1]:10}")


if __name__ == "__main__":
    anyio.run(main)
