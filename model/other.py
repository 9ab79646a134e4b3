"""Another call, while the first is open: a second one of the same user, or one of another user."""

from collections.abc import Iterator

from model import client
from model.actions import BeginsOther, GetsError, OfOther, Step
from model.world import REFUSED_AS_ONE, Client, Request, World


def steps(world: World, attempt: int, *, keyed: bool, is_same_call: bool) -> Iterator[Step]:
    """Begin the other call, or do a step of its client, which stops at an error.

    `is_same_call` says that the server takes both calls for one.
    """
    if world.other is None:
        for changed in (False, True):
            theirs = Client(Request(attempt, 1, changed))
            begun = world._replace(other=theirs, requests=world.requests | {theirs.waits_for})
            yield BeginsOther(changed), begun
        return
    seen = world._replace(client=world.other)
    for does, after in client.steps(seen, client.Manner("stops", keyed), wants_second=False):
        mine = after._replace(client=world.client, other=after.client)
        if is_same_call and isinstance(does, GetsError):
            mine = mine._replace(noticed=mine.noticed | {REFUSED_AS_ONE})
        yield OfOther(does), mine
