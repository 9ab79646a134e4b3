"""Where effects go. Three kinds; counts stop where another one would change no verdict."""

from model.world import Destination

KINDS = ("ignores keys", "honours idempotency keys", "refuses a second effect about the same thing")
MOST = 3


def effect(destination: Destination, kind: str, name: str, call: int | None) -> Destination:
    """Do an effect. `call` names the call in the idempotency key; None is an effect without one.

    `idempotentHint` defaults to false: nothing says that an effect may be repeated.
    """
    key = None
    if kind == KINDS[1] and call is not None:
        key = (name, call)
    if kind == KINDS[2]:
        key = (name, 0)
    if key in destination.keys:
        return destination
    if key is not None:
        destination = destination._replace(keys=destination.keys | {key})
    if name == "audit":
        return destination._replace(audits=min(MOST, destination.audits + 1))
    return destination._replace(bills=min(MOST, destination.bills + 1))
