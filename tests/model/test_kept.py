"""Tests of the kept verdicts: they are those of the model now, and show what documents say."""

import json
from itertools import product

import pytest

from model.check import cells
from model.client import POLICIES
from model.destination import KINDS
from model.digest import of_code, what_runs
from model.extras import EXTRAS, FORGETTING
from model.kept import tasks, verdict_of
from model.reading import NAMES
from mrtr_options.review.explore.never import KEPT
from mrtr_options.sdk.handler import JsonObject
from tests.evidence import every

STALE = "stale: run python -m documents --model"
FEW = 1500
"""The most states of a search that `make test` makes again."""

SAVED: JsonObject = json.loads(KEPT.read_text(encoding="utf-8"))
TASKS = {task.name: task for task in tasks()}


def name_of(search: JsonObject) -> str:
    """Return the name of a kept search."""
    words = ("mechanism", "client", "destination", "extra")
    return " / ".join(search[word] for word in words if search[word])


SEARCHES = {name_of(search): search for search in SAVED["searches"]}
MOST = 20_000
"""The most states of a search that `make evidence` makes again; `make model` makes every one."""

AGAIN = {name: name for name, search in SEARCHES.items() if search["states"] <= MOST}
SMALL = [name for name, search in SEARCHES.items() if search["states"] <= FEW]


def test_kept_verdicts_are_of_this_code_and_of_every_cell() -> None:
    assert SAVED["code"] == of_code(), STALE
    assert SAVED["names"] == [*NAMES], STALE
    assert [*SEARCHES] == [*TASKS], STALE
    assert {" / ".join(cell) for cell in cells()} <= {*SEARCHES}, STALE


def test_the_digest_takes_in_what_a_program_does_and_nothing_else() -> None:
    written = "def f(a: int, b: int = 3) -> int:\n    'Add.'\n    return a + b  # their sum"
    assert what_runs(written) == what_runs("def f(a, b=3): return a + b")
    assert what_runs(written) != what_runs(written.replace("3", "4"))
    assert what_runs(written) != what_runs(written.replace("+", "-"))


@pytest.mark.parametrize("name", every("searches of the model", AGAIN, SMALL))
def test_kept_verdict_is_what_a_search_finds_now(name: str) -> None:
    assert json.loads(json.dumps(verdict_of(TASKS[name]).as_json())) == SEARCHES[name], STALE


BY_KEY = "guard, named by key (J)"
BY_ARGUMENT = "guard, named by argument (J)"
IGNORES = "ignores keys"
HONOURS = "honours idempotency keys"

SHOWN = {
    f"nothing kept (F) / stops / {IGNORES}": "charged twice",
    f"guard (F) / calls again / {IGNORES}": "charged twice",
    f"durable record (L, K) / resends / {HONOURS}": "logged twice",
    f"durable record, named by key / resends / {IGNORES} / redeploys": "call lost",
    f"nothing kept (J) / resends / {IGNORES} / changed answers": "both answers charged",
    f"nothing kept (F) / resends / {IGNORES} / early answers": "question skipped",
    f"{BY_ARGUMENT} / stops / {IGNORES}": "second wanted call swallowed",
    f"{BY_ARGUMENT} / resends / {IGNORES} / second call at once": "second wanted call swallowed",
    f"guard (F) / resends / {IGNORES} / client dies": "asked twice",
    f"{BY_KEY} / resends / {IGNORES} / forgets at any time": "charged twice",
    f"{BY_KEY} / resends / {IGNORES} / forgets when told": "charged twice",
    f"{BY_KEY} / resends / {HONOURS} / forgets when too old": "charged, told of an error",
}
"""What MODEL and CALL_KEY say that a search shows."""

NEVER = [
    *(
        (f"guard (F) / {client} / {destination}", "charged twice")
        for client, destination in product(("stops", "resends"), KINDS)
    ),
    *((f"{BY_KEY} / resends / {IGNORES} / {extra}", "charged twice") for extra in EXTRAS),
    *((f"{BY_KEY} / resends / {HONOURS} / {rule}", "charged twice") for rule in FORGETTING),
    *(
        (f"{mechanism} / {client} / {IGNORES} / redeploys", "charged twice")
        for mechanism, client in product((BY_KEY, BY_ARGUMENT), POLICIES)
    ),
    (f"{BY_KEY} / calls again / {IGNORES}", "charged twice"),
    (f"{BY_KEY} / resends / {IGNORES} / forgets when told, keeps a mark", "charged twice"),
    (f"{BY_KEY} / resends / {IGNORES} / forgets when too old", "charged twice"),
    (f"{BY_KEY} / resends / {IGNORES} / changed answers", "both answers charged"),
    (f"{BY_KEY} / stops / {IGNORES}", "second wanted call swallowed"),
    (f"{BY_ARGUMENT} / resends / {IGNORES} / another user", "second wanted call swallowed"),
    (f"nothing kept (J) / resends / {IGNORES} / early answers", "question skipped"),
    *((f"{BY_KEY} / resends / {HONOURS}", name) for name in NAMES),
]
"""What they say that no closed search shows."""


@pytest.mark.parametrize("name", SHOWN)
def test_search_shows_what_the_documents_say(name: str) -> None:
    assert SHOWN[name] in SEARCHES[name]["anomalies"]


@pytest.mark.parametrize(("name", "anomaly"), NEVER)
def test_search_never_shows_what_the_documents_deny(name: str, anomaly: str) -> None:
    assert SEARCHES[name]["closed"]
    assert anomaly not in SEARCHES[name]["anomalies"]
