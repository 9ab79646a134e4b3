"""Option G: a tool as named steps and an end step. There is no line above the question.

Each step either returns its value or a question whose answer becomes its value. Values travel in
the state, so a finished step is not entered again; steps that are added together ask in one round.
The end step runs when every value is there, and effects belong there only. The author gives up the
first line: an abandoned call never reaches the end step, so it has no effect at all. A step that
asks is entered once more when its answer comes, and so is what is in it.

A link that the user accepts finishes its step: that is consent, and says nothing of what became of
the page. Ask the server of the page in the end step, before an effect that rests on it.

The end step runs once per *delivery* of the final round. A duplicate runs it again; the state
cannot tell.

Knows `handler`, `current_request`, `keys` and `questions`.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import Any, Generic, Self

import mcp_types as types
from mcp.server import ServerRequestContext
from pydantic import BaseModel
from typing_extensions import TypeVar

from mrtr_options.sdk.current_request import by_hand, check_protected
from mrtr_options.sdk.effects import in_doubt, keeping_effects
from mrtr_options.sdk.handler import (
    TELLS_EFFECTS,
    Context,
    HandlerOf,
    NotAHandler,
    await_result,
    refuse_generator,
    why_not,
)
from mrtr_options.sdk.questions import (
    AnswerT,
    AnyQuestion,
    Question,
    answer_to,
    check_fits,
    load_state,
    request_for,
)
from mrtr_options.sdk.writing import write_model

DeskT = TypeVar("DeskT")
ParamsT = TypeVar(
    "ParamsT", bound=types.InputResponseRequestParams, default=types.CallToolRequestParams
)
ResultT = TypeVar("ResultT", bound=types.Result, default=types.CallToolResult)


class Values(BaseModel):
    """The state: the value of every finished step, by the step's name."""

    finished: dict[str, dict[str, Any]] = {}

    @cached_property  # pydantic takes ten times as long over a private attribute
    def _fresh(self) -> dict[str, BaseModel]:
        return {}

    def put(self, step: str, value: BaseModel, said: dict[str, Any] | None = None) -> None:
        """Finish a step.

        Args:
            step: Its name.
            value: Its value.
            said: What a later round makes the value of, where that is not what the value is as
                JSON.

        Raises:
            ValueError: A later round would read another value: see `ask`.
        """
        self.finished[step] = said or json.loads(write_model(value, exclude_defaults=False))
        self._fresh[step] = value

    def get(self, step: str, model: type[AnswerT]) -> AnswerT:
        """Return the value of a finished step.

        Raises:
            KeyError: No such step, or it comes later.
        """
        # This round's own values are handed over as they are: one may say more than its JSON does.
        fresh = self._fresh.get(step)
        return fresh if isinstance(fresh, model) else model.model_validate(self.finished[step])


StepResult = BaseModel | AnyQuestion[BaseModel]
Step = Callable[
    [ServerRequestContext[DeskT, Any], ParamsT, Values], StepResult | Awaitable[StepResult]
]
End = Callable[[ServerRequestContext[DeskT, Any], ParamsT, Values], ResultT | Awaitable[ResultT]]


async def _finish(
    group: Mapping[str, Step[Any, ParamsT]], ctx: Context, params: ParamsT, values: Values
) -> types.InputRequests:
    """Run the unfinished steps of a group, and return the questions that have no answer yet."""
    asked: types.InputRequests = {}
    for name, step in group.items():
        if name in values.finished:
            continue
        value = await await_result(step(ctx, params, values))
        if isinstance(value, BaseModel):
            values.put(name, value)
            continue
        uses = by_hand(params).uses  # no two steps have one answer
        uses.take("question", value.key, value, place=f"in the step {name!r}")
        answer = answer_to(value, ctx, params)
        if answer is None:
            asked[value.key] = request_for(value)
        else:
            said = (params.input_responses or {}).get(value.key)
            values.put(name, answer, _as_it_came(value, said))
    return asked


def _as_it_came(
    question: AnyQuestion[BaseModel], said: types.InputResponse | None
) -> dict[str, Any] | None:
    """Return the content of a form; its model may change it, and does so once."""
    if not isinstance(question, Question) or not isinstance(said, types.ElicitResult):
        return None
    return {key: each for key, each in (said.content or {}).items() if each is not None}


class ToolBuilder(Generic[DeskT, ParamsT, ResultT]):
    """A builder of a handler out of steps, in the order in which they are added.

    It is a tool's, or, if its types say so, a prompt's or a resource's. Steps and the end step are
    functions of (ctx, params, values), async or not:

        handler = (
            sdk.ToolBuilder[Any]()
            .step("hour", lambda ctx, params, values: sdk.Question("hour", "When?", Hour))
            .end(lambda ctx, params, values: sdk.text(f"at {values.get('hour', Hour).hour}"))
            .build()
        )
    """

    def __init__(self) -> None:
        self._groups: list[dict[str, Step[DeskT, ParamsT]]] = []
        self._end: End[DeskT, ParamsT, ResultT] | None = None

    def step(self, name: str, step: Step[DeskT, ParamsT]) -> Self:
        """Add a step that returns its value, or a question whose answer is its value.

        Two steps that ask under one key are an error: the handler raises KeyUsedTwice, a
        ValueError.

        Raises:
            ValueError: The name is empty or taken.
            NotAHandler: The step does not take what steps take.
        """
        return self.together({name: step})

    def together(self, steps: Mapping[str, Step[DeskT, ParamsT]]) -> Self:
        """Add steps, by name, whose questions go out in one round. They may be answered one by one.

        A step must not count on the value of another one of these: it may not be there yet.

        Raises:
            ValueError: A name is empty or taken.
            NotAHandler: A step does not take what steps take.
        """
        for name in steps:
            if not name:
                raise ValueError("a step needs a name: its value travels under it")
            if any(name in group for group in self._groups):
                raise ValueError(
                    f"there is a step {name!r} already: the name is the key of its value"
                )
            _check(f"the step {name!r}", steps[name])
        self._groups.append(dict(steps))
        return self

    def end(self, end: End[DeskT, ParamsT, ResultT]) -> Self:
        """Set the step that runs when every other step has its value. Effects go here.

        Raises:
            ValueError: There is one already.
            NotAHandler: It does not take what steps take.
        """
        if self._end is not None:
            raise ValueError("there is an end step already: a tool ends once")
        _check("the end step", end)
        self._end = end
        return self

    def build(
        self,
    ) -> HandlerOf[ParamsT, ResultT]:
        """Make the handler.

        Raises:
            ValueError: No step, or no end step.
        """
        groups = list(self._groups)
        end = self._end
        if not any(groups) or end is None:
            raise ValueError("a tool needs at least one step and an end step")

        async def end_of(ctx: Context, params: ParamsT, values: Values) -> ResultT:
            # Its effects are its own, so it counts as one where it fails.
            ended: list[ResultT] = []
            with keeping_effects() as effects:

                async def run() -> None:
                    ended.append(await await_result(end(ctx, params, values)))

                refuse_generator(end)
                await effects.run("end", run)
            if not ended:  # it ran before, and its result was lost
                raise in_doubt(["end"])
            return ended[0]

        async def handler(ctx: Context, params: ParamsT) -> ResultT | types.InputRequiredResult:
            values = load_state(params, Values)
            for group in groups:
                asked = await _finish(group, ctx, params, values)
                if asked:
                    check_protected()
                    state = check_fits(values.model_dump_json(exclude_defaults=True))
                    return types.InputRequiredResult(input_requests=asked, request_state=state)
            return await end_of(ctx, params, values)

        vars(handler)[TELLS_EFFECTS] = True
        return handler


def _check(what: str, step: object) -> None:
    if why := why_not(step, (ServerRequestContext, types.InputResponseRequestParams, Values)):
        raise NotAHandler(
            f"{what} is a function of (ctx, params, values), async or not, and it {why}"
        )
