"""What a user says, as it goes on the wire.

Knows schedules and the SDK's types.
"""

from __future__ import annotations

from typing import Any, Literal

import mcp_types as types
from pydantic import ValidationError

from mrtr_options.bench.schedules import Accept, Nothing, Refuse, Roots, UserAnswer


def on_the_wire(answer: UserAnswer) -> types.InputResponse:
    match answer:
        case Accept():
            return _elicit_result("accept", answer.content)
        case Refuse():
            return _elicit_result(answer.action, answer.content)
        case Roots():
            return types.ListRootsResult(roots=[])
        case Nothing():
            raise ValueError("nothing is sent where there is no answer")


def _elicit_result(action: Literal["accept", "decline", "cancel"], content: Any) -> types.ElicitResult:
    try:
        return types.ElicitResult(action=action, content=content)
    except ValidationError:
        return types.ElicitResult.model_construct(action=action, content=content)
