"""The anomalies as invariants of a state, under the names of the review's results."""

from model.world import World


def anomalies(world: World) -> set[str]:
    """Return the names of the anomalies that a state shows."""
    return of_effects(world) | of_the_client(world) | world.noticed


def of_effects(world: World) -> set[str]:
    """Return the anomalies of effects: each call is due one, and each changed answer one more."""
    client, other, done = world.client, world.other, world.destination
    calls = client.wanted + (0 if other is None else 1)
    due = calls + client.changes
    other_is_reported = other is not None and other.told == "result"
    other_may_be_charged = other is not None and other.told != "error"
    reports = client.wanted + (1 if other_is_reported else 0)
    charged_well = client.wanted - 1 + (1 if other_may_be_charged else 0)
    found: set[str] = set()
    if done.bills > due:
        found.add("duplicate bill")
    if calls < done.bills <= due:
        found.add("two answers taken")
    if done.audits > due:
        found.add("duplicate audit")
    if client.told == "error" and done.bills > charged_well:
        found.add("orphan bill")
    if client.told == "result" and (done.bills == 0 or done.audits == 0):
        found.add("lost effect")
    if client.told == "result" and 0 < done.bills < reports:
        found.add("wanted call swallowed")
    return found


def of_the_client(world: World) -> set[str]:
    """Return the anomalies of what the client and its user saw."""
    client = world.client
    found: set[str] = set()
    other_was_asked = world.other is not None and world.other.answered[1] > 0
    was_asked_last = client.answered[1] > 0 or client.wanted > 1 or other_was_asked
    if client.told == "result" and not was_asked_last:
        found.add("unasked answer")
    if max(client.answered) > 1:
        found.add("asked again")
    if client.start_over:
        found.add("lost call")
    return found


NAMES = (
    "duplicate bill",
    "orphan bill",
    "two answers taken",
    "unasked answer",
    "wanted call swallowed",
    "lost effect",
    "duplicate audit",
    "forged state",
    "divergent replies",
    "asked again",
    "stuck call",
    "lost call",
)
"""The anomalies that the model can show. It has no words of questions, so none of stale answers."""
