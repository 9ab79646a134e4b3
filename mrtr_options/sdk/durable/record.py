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
    Attempt,
    Begun,
    Caller,
    Ended,
    Handed,
    Outcome,
    Output,
    Reply,
)
from mrtr_options.sdk.durable.sealing import MAX_BYTES, length
from mrtr_options.sdk.effects import ENDINGS, NotDone, Unknown
from mrtr_options.sdk.handler import reason_of, refusal, telling_of
from mrtr_options.sdk.questions import (
    AnyQuestion,
    Cancelled,
    Declined,
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
        words: The author's words on the progress of the work.
        attempt: What the next attempt would take over, while the call runs.
        to_settle: The steps of this attempt whose destination can be asked, while the call runs.
        open: The open questions by key, while the call runs.
        size: The length as JSON in bytes, while the call runs.
    """

    begun: Begun
    updated: float
    outputs: list[Output] = field(default_factory=list[Output])
    answers: dict[int, Answers] = field(default_factory=dict[int, Answers])
    words: str | None = None
    attempt: Annotated[Attempt, Field(exclude=True)] = field(default_factory=Attempt)
    to_settle: Annotated[set[str], Field(exclude=True)] = field(default_factory=set[str])
    open: Annotated[dict[str, Any], Field(exclude=True)] = field(default_factory=dict[str, Any])
    size: Annotated[int, Field(exclude=True)] = 0

    def __post_init__(self) -> None:
        self.size = length(self.begun)
        before = self.begun.before
        self.attempt = replace(before, steps={**before.steps}, values={**before.values})

    @property
    def output(self) -> Output | None:
        """The open question or the end; None while the handler is at work."""
        if not self.outputs or len(self.outputs) - 1 in self.answers:
            return None
        return None if isinstance(self.outputs[-1], Handed) else self.outputs[-1]

    @property
    def asked(self) -> tuple[int, Asked]:
        """The last question, and its output's number."""
        numbered = reversed([*enumerate(self.outputs)])
        return next((number, output) for number, output in numbered if isinstance(output, Asked))

    @property
    def ended_unanswered(self) -> bool:
        """Return whether the call ended while a question was open."""
        last = len(self.outputs) - 2
        was_asked = last >= 0 and isinstance(self.outputs[last], Asked)
        return self.end is not None and was_asked and last not in self.answers

    @property
    def end(self) -> Ended | None:
        """The end of the call; None while it runs."""
        last = self.outputs[-1] if self.outputs else None
        return last if isinstance(last, Ended) else None

    @property
    def task_at(self) -> float | None:
        """The time when the call became a task; None if it has not become one."""
        return next((each.at for each in self.outputs if isinstance(each, Handed)), None)

    @property
    def caller(self) -> Caller:
        """The client that sent the latest answers."""
        return next(reversed(self.answers.values()), self.begun).caller

    def begin_step(self, key: str, *, can_be_settled: bool) -> None:
        """Count a step among those that have begun."""
        self.attempt.steps.setdefault(key, None)
        if can_be_settled:
            self.to_settle.add(key)

    @property
    def left_open(self) -> list[str]:
        """The steps in doubt that the author of this attempt has no word on.

        An earlier attempt began them, or their destination is to be asked first.
        """
        in_doubt = [key for key, value in self.attempt.steps.items() if value is None]
        return [key for key in in_doubt if key in self.begun.before.steps or key in self.to_settle]

    def ended(self, outcome: Outcome | None) -> Ended:
        """Return how the call ends, and whether it frees its name.

        It does if no step has begun, and the user refused a question, could not be asked, or gave
        no answer in time, or the handler failed; or if its author says that nothing was done, and
        no step is done.

        The next call of its name tries again what ended in `Unknown`, what ended in a text and left
        a step open, and what ended in an unanswered question of an attempt that began no step of
        its own; unless what its steps returned is too long.

        Args:
            outcome: What the handler came to; None for a call that is cancelled.
        """
        is_failed = isinstance(outcome, Exception) and not isinstance(outcome, MCPError)
        is_given_up = isinstance(outcome, MCPError) and reason_of(outcome) == Reason.UNKNOWN_CALL
        is_stopped = outcome is None or is_given_up
        is_unanswered = is_stopped and isinstance(self.output, Asked)
        steps = self.attempt.steps
        effects = [*steps]
        is_idle = bool(effects) and steps.keys() == self.begun.before.steps.keys()
        is_open = isinstance(outcome, ENDINGS) and bool(self.left_open)
        if isinstance(outcome, Unknown) or is_open or (is_unanswered and is_idle):
            unknown = Ended(outcome, effects=effects, unknown=self.attempt)
            return unknown if self.has_room(unknown) else replace(unknown, unknown=None)
        if isinstance(outcome, NotDone):  # the author's word on what is not done for certain
            effects = [key for key, value in steps.items() if value is not None]
        return Ended(outcome, frees=(is_failed or is_unanswered) and not effects, effects=effects)

    def ask(self, questions: dict[str, AnyQuestion[Any]]) -> None:
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
        with telling_of(lambda: self.attempt.steps):
            return self._new_answers(number, answers)

    def _new_answers(self, number: int, answers: Answers) -> Answers | None:
        if number < 0:
            return None
        if self.end and number >= len(self.outputs) - 1:
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
        if self.end:
            at = min(at, len(self.outputs) - 1)
        return Reply(at, self.outputs[at]) if at < len(self.outputs) else None
