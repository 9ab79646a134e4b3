"""The anomalies that never happen to a subject, as far as the model of delivery describes it.

`python -m model` searches all states of the model, which knows nothing of this package but the
definitions of anomalies. Its verdicts are kept in `model.json`, which `python -m documents --model`
writes.

Knows the kept verdicts, the names of subjects, and which faults the model has; nothing of runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from mrtr_options.review.bench.faults import EXPLORED
from mrtr_options.review.bench.faults.kinds import LACKED

KEPT = Path(__file__).with_name("model.json")
"""The verdicts of the model."""

NEVER = "never"
"""The text for an anomaly that neither runs nor the model show."""

CONDITIONS = (
    "never: in no state of the model either, with any number of lost, repeated and late messages"
    " and of crashes, and its other conditions: docs/MODEL.md"
)

DESTINATIONS = {
    "ignores keys": "ignores keys",
    "honours keys": "honours idempotency keys",
    "business key": "refuses a second effect about the same thing",
}
"""The model's names of the destinations."""

EXTRAS = {
    kind.name: kind.model for kind in EXPLORED.values() if kind.model and kind.model != LACKED
}
"""The model's extra for each explored kind of fault that needs one."""

LACKING = [kind.name for kind in EXPLORED.values() if kind.model == LACKED]
"""The explored kinds of faults that the model lacks. If there are any, nothing is never."""


def describe_lacking() -> list[str]:
    """Return the line that says why no cell says "never"; none if the model has each fault."""
    if not LACKING:
        return []
    return [f"{NEVER}: said of nothing until the model has each fault: {', '.join(LACKING)}"]


NARROWER = "two responses to one request"
"""An anomaly that the model knows only between a result and a failure."""


class Description(NamedTuple):
    """The model's mechanism of a subject, and the destinations for which they are the same."""

    mechanism: str
    destinations: tuple[str, ...] = tuple(DESTINATIONS)


DESCRIBED = {
    "E": Description("nothing kept (E)"),
    "F": Description("nothing kept (F)"),
    "J": Description("nothing kept (J)"),
    "H": Description("frame in memory (H)"),
    "F+guard": Description("guard (F)"),
    # With other destinations, and with a key, not every extra is searched.
    "J+guard+named": Description("guard, named by argument (J)", ("ignores keys",)),
    "J+guard+call-key": Description("guard, named by key (J)", ("ignores keys", "honours keys")),
    "L": Description("durable record (L, K)"),
}
"""The subjects that the model describes: each is driven or played against it (`tests/model`)."""


@cache
def searches() -> Mapping[tuple[str, str, str, str], Mapping[str, Any]]:
    """Return the kept searches by mechanism, client, destination and extra."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))["searches"]
    names = ("mechanism", "client", "destination", "extra")
    return {tuple(each[name] for name in names): each for each in kept}


@cache
def modelled() -> frozenset[str]:
    """Return the anomalies that the model can show as the review does."""
    return frozenset(json.loads(KEPT.read_text(encoding="utf-8"))["names"]) - {NARROWER}


def searches_of(row: Mapping[str, Any]) -> list[Mapping[str, Any] | None]:
    """Return the searches for a row: without an extra, and with each that is a fault of the row.

    The list is empty if the model does not describe the row, and has None for a missing search.
    """
    described = DESCRIBED.get(row["subject"])
    is_as_in_the_model = (row["era"], row["location"]) == ("modern", "Springfield")
    if described is None or not is_as_in_the_model:
        return []
    if row["destination"] not in described.destinations:
        return []
    cell = described.mechanism, row["policy"], DESTINATIONS[row["destination"]]
    return [searches().get((*cell, extra)) for extra in ("", *dict.fromkeys(EXTRAS.values()))]


def never_in(row: Mapping[str, Any]) -> list[str]:
    """Return the anomalies that never happen to the subject of a row.

    No run shows one, though every kind of fault was tried, and none that the model lacks (`--also`,
    `--words other`). No search of its mechanism shows one,
    with this client and destination, without an extra and with each that is a fault of the row;
    all of these searches have ended; and the model has every kind of fault that runs try.
    """
    if row.get("also") or row.get("words"):
        return []
    found = searches_of(row)
    done = [each for each in found if each is not None and each["closed"]]
    if not found or len(done) < len(found) or row.get("not_tried") or LACKING:
        return []
    shown = {*row["witnesses"]}.union(*(each["anomalies"] for each in done))
    return sorted(modelled() - shown)
