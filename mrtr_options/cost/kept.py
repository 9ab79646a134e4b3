"""The figures of an earlier run, kept in docs/cost.json, so that they can be looked at without a run.

To renew them and the notebook that shows them, on a machine with nothing else to do (minutes):

    python -m mrtr_options cost --json > docs/cost.json
    python -m mrtr_options.show.render --execute

Knows what `show.cost` writes as JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from mrtr_options.cost.calls import CallCost
from mrtr_options.cost.durable import Kept, RoundCost, Step
from mrtr_options.cost.growth import Growth
from mrtr_options.cost.guard import GuardCost
from mrtr_options.cost.http import Load
from mrtr_options.cost.memory import Parked
from mrtr_options.cost.questions import QuestionsCost
from mrtr_options.cost.report import Report
from mrtr_options.cost.size import Size

FILE = Path(__file__).parents[2] / "docs" / "cost.json"

T = TypeVar("T")


def read(path: Path = FILE) -> Report:
    """A report from what `cost --json` printed.

    Raises:
        ValueError: The file holds something else.
    """
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))

    def every(kind: type[T], name: str) -> list[T]:
        adapter: TypeAdapter[T] = TypeAdapter(kind)
        return [adapter.validate_python(each) for each in found[name]]

    return Report(
        calls=every(CallCost, "calls"),
        questions=every(QuestionsCost, "questions"),
        http=every(Load, "http"),
        growth=every(Growth, "growth"),
        parked=every(Parked, "parked"),
        parked_through_server=found["parked_through_server_bytes"],
        guards=every(GuardCost, "guards"),
        sizes=every(Size, "sizes"),
        rounds=every(RoundCost, "rounds"),
        ramp=every(Step, "ramp"),
        kept=every(Kept, "kept"),
        left_out=found["left_out"],
    )
