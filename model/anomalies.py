"""The anomalies as invariants of a state, under the names of the review's results."""

from model.world import World


def anomalies(world: World) -> set[str]:
    """Return the names of the anomalies that a state shows."""
    client, done = world.client, world.destination
    found: set[str] = set()
    if done.bills > client.wanted:
        found.add("duplicate bill")
    if done.audits > client.wanted:
        found.add("duplicate audit")
    if client.told == "error" and done.bills > client.wanted - 1:
        found.add("orphan bill")
    if client.told == "result" and (done.bills == 0 or done.audits == 0):
        found.add("lost effect")
    if client.told == "result" and client.wanted == 2 and done.bills == 1:
        found.add("wanted call swallowed")
    if max(client.answered) > 1:
        found.add("asked again")
    if client.start_over:
        found.add("lost call")
    return found


NAMES = (
    "duplicate bill",
    "orphan bill",
    "lost effect",
    "wanted call swallowed",
    "duplicate audit",
    "asked again",
    "lost call",
    "stuck call",
)
