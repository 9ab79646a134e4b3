"""Another call, while the first is open: a second one of the same user, or one of another user."""

from collections.abc import Iterator

from model import client
from model.world import SPENT, TWIN, Client, Request, Step, World


def steps(world: World, attempt: int, *, keyed: bool) -> Iterator[Step]:
    """Begin the other call, or do a step of its client, which stops at an error."""
    if world.other is None:
        for changed, says in ((False, "begins"), (True, "with other answers begins")):
            theirs = Client(Request(attempt, 1, changed))
            begun = world._replace(other=theirs, requests=world.requests | {theirs.waits_for})
            yield f"another call {says}", begun
        return
    seen = world._replace(client=world.other)
    for says, after in client.steps(seen, "stops", wants_second=False, keyed=keyed):
        mine = after._replace(client=world.client, other=after.client)
        is_taken_for_mine = attempt == TWIN and says == f"client gets error: {SPENT}"
        if is_taken_for_mine:
            mine = mine._replace(noticed=mine.noticed | {"wanted call swallowed"})
        yield f"other call: {says}", mine
