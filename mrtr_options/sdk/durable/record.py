"""The record of a durable call: its outputs, and the answers that it has taken.

Knows `events` and `questions`; nothing of engines.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from mcp import MCPError
from pydantic import Field

from mrtr_options.sdk.durable.events import (
    Answers,
    Asked,
    Begun,
    Caller,
    Ended,
    Handed,
    Outcome,
    Output,
    Reply,
)
from mrtr_options.sdk.durable.sealing import MAX_BYTES, length
from mrtr_options.sdk.effects import NotDone
from mrtr_options.sdk.handler import reason_of, refusal
from mrtr_options.sdk.questions import (
    Cancelled,
    Declined,
    Inquiry,
    Question,
    answered_differently,
    read_answer,
    request_for,
)
from mrtr_options.sdk.reasons import Reason


@dataclass
class Record:
    """The outputs of a call, and the answers that it has taken. Kept after its end.

    Attributes:
        begun: The beginning of the call.
        updated: The time of the last event.
        outputs: All its outputs.
        answers: The answers, by the number of the output that asked for them.
        effects: The steps that have begun, and whether each is done for certain.
        words: The author's words on the progress of the work.
        open: The open questions by key, while the call runs.
        size: The length as JSON in bytes, while the call runs.
    """

    begun: Begun
    updated: float
    outputs: list[Output] = field(default_factory=list[Output])
    answers: dict[int, Answers] = field(default_factory=dict[int, Answers])
    effects: dict[str, bool] = field(default_factory=dict[str, bool])
    words: str | None = None
    open: Annotated[dict[str, Any], Field(exclude=True)] = field(default_factory=dict[str, Any])
    size: Annotated[int, Field(exclude=True)] = 0

    def __post_init__(self) -> None:
        self.size = length(self.begun)

    @property
    def output(self) -> Output | None:
        """The open question or the end; None while the handler is at work."""
        if not self.outputs or len(self.outputs) - 1 in self.answers:
            return None
        return None if isinstance(self.outputs[-1], Handed) else self.outputs[-1]

    @property
    def asked(self) -> tuple[int, Asked]:
        """The last question, and its output's number."""
        for number, output in reversed([*enumerate(self.outputs)]):
            if isinstance(output, Asked):
                return number, output
        raise ValueError("the call has asked nothing")

    @property
    def _has_ended(self) -> bool:
        return bool(self.outputs) and isinstance(self.outputs[-1], Ended)

    @property
    def ended_unanswered(self) -> bool:
        """Return whether the call ended while a question was open."""
        last = len(self.outputs) - 2
        was_asked = last >= 0 and isinstance(self.outputs[last], Asked)
        return self._has_ended and was_asked and last not in self.answers

    @property
    def has_freed_its_name(self) -> bool:
        """Return whether the next first request of its name begins another call."""
        if not self.outputs:
            return False
        last = self.outputs[-1]
        return isinstance(last, Ended) and last.frees

    @property
    def task_at(self) -> float | None:
        """The time when the call became a task; None if it has not become one."""
        return next((each.at for each in self.outputs if isinstance(each, Handed)), None)

    @property
    def caller(self) -> Caller:
        """The client that sent the latest answers."""
        return next(reversed(self.answers.values()), self.begun).caller

    def ended(self, outcome: Outcome | None) -> Ended:
        """Return how the call ends, and whether it frees its name.

        It does if no step has begun, and the user refused a question, could not be asked, or gave
        no answer in time, or the handler failed; or if its author says that nothing was done, and
        no step is done.

        Args:
            outcome: What the handler came to; None for a call that is cancelled.
        """
        is_failed = isinstance(outcome, Exception) and not isinstance(outcome, MCPError)
        is_given_up = isinstance(outcome, MCPError) and reason_of(outcome) == Reason.UNKNOWN_CALL
        is_stopped = outcome is None or is_given_up
        is_unanswered = is_stopped and isinstance(self.output, Asked)
        effects = [*self.effects]
        if isinstance(outcome, NotDone):  # the author's word on what is not done for certain
            effects = [key for key, is_done in self.effects.items() if is_done]
        return Ended(outcome, frees=(is_failed or is_unanswered) and not effects, effects=effects)

    def ask(self, questions: dict[str, Question[Any] | Inquiry[Any]]) -> None:
        """Add an output that asks these questions.

        Raises:
            ValueError: There is no room for these questions.
        """
        asked = Asked({key: request_for(each) for key, each in questions.items()})
        if not self.has_room(asked):
            keys = [*asked.requests]
            raise ValueError(
                f"a call is {MAX_BYTES} bytes at most, and there is no room to ask {keys}"
            )
        self.open = questions
        self._say(asked)

    def _say(self, *asked: Asked) -> None:
        self.outputs += asked
        self.size += sum(map(length, asked))

    def has_room(self, *messages: object) -> bool:
        """Return whether the call fits into `MAX_BYTES` together with these messages."""
        return self.size + sum(map(length, messages)) <= MAX_BYTES

    def check(self, number: int, answers: Answers) -> None:
        """Check the answers of a round, without taking them.

        Raises:
            MCPError: As `new_answers`.
        """
        self.new_answers(number, answers)

    def new_answers(self, number: int, answers: Answers) -> Answers | None:
        """Return the answers of a round that are to be taken; None if there are none.

        Answers that were taken before are not new. Nor are answers to another question than the
        handler asks now: it may have begun again and ask something else.

        Args:
            number: The number of the output that the round goes on from; -1 for the first round.
            answers: The answers of the round.

        Raises:
            MCPError: They do not fit, are too long, or the question has been answered differently.
        """
        if number < 0:
            return None
        if self._has_ended and number >= len(self.outputs) - 1:
            return None  # it ended earlier when it ran again
        asked = self.outputs[number] if number < len(self.outputs) else None
        if not isinstance(asked, Asked):
            raise refusal(Reason.UNKNOWN_CALL)
        said = {key: each for key, each in answers.responses.items() if key in asked.requests}
        answers = replace(answers, responses=said)
        if not said or answers.asked != asked.digest:
            return None
        if number in self.answers:
            if self.answers[number].responses != said:
                raise answered_differently(min(said))
            return None
        if number + 1 < len(self.outputs):
            return None  # the question was abandoned
        if not self.has_room(answers, *asked.left_by(answers)):
            raise refusal(Reason.TOO_LONG)
        for key, response in said.items():
            with suppress(Declined, Cancelled):
                read_answer(self.open[key], response)
        return answers

    def take(self, number: int, answers: Answers) -> None:
        """Take answers. Ask again at once for those that are missing, unless the user said no."""
        asked = self.outputs[number]
        assert isinstance(asked, Asked)
        self.answers[number] = answers
        self.size += length(answers)
        self._say(*asked.left_by(answers))

    def reply(self, number: int) -> Reply | None:
        """Return the reply to a round that brought no new answers; None until there is one.

        The reply is the open question, or the output after it. A task goes on without its client.
        """
        was_handed_over = any(isinstance(each, Handed) for each in self.outputs[:number])
        if number >= 0 and not was_handed_over:
            is_done_with = number in self.answers or number + 1 < len(self.outputs)
            if is_done_with:
                number += 1
        at = max(number, 0)
        if self._has_ended:
            at = min(at, len(self.outputs) - 1)
        return Reply(at, self.outputs[at]) if at < len(self.outputs) else None
