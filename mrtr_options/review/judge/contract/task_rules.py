"""The rules for tasks, which a server hands out to clients that declare the extension.

The call of a task is the call of the page: it asks the same questions and ends in the same report.
The rules for ids, statuses, updates and cancelling are the extension's own. Runs in which a server
ends, a response is lost or an effect fails are left to the option's guarantees.

Knows the requests of a history; nothing of how tasks are kept. Source: SEP-2663.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product, takewhile
from typing import get_args

import mrtr_options.review.judge.contract.rules as rules
from mrtr_options.review.bench.history import Effect, Elapsed, History, Received, Reply, Sent
from mrtr_options.review.bench.history.narrate import describe_reply, quoted
from mrtr_options.review.bench.messages import HUNG
from mrtr_options.review.bench.scenario import Scenario
from mrtr_options.review.bench.steps import ENDED, Status
from mrtr_options.review.judge.contract.content import UNITS, interpret, places_meant
from mrtr_options.review.judge.contract.kinds import Asks, asks_place, asks_units, report
from mrtr_options.review.judge.properties import Problem
from mrtr_options.tool import weather

OWNER = "alice"
"""The principal who owns the task."""


def has_tasks(history: History) -> bool:
    """Return whether a client that declared the extension was handed a task."""
    return any(
        got.reply.task is not None and sent.request.takes_tasks for sent, got in history.exchanges
    )


def find_wrong_tasks(history: History) -> list[Problem]:
    """Return the problems of a history's task; none if a fault disturbed it on its way."""
    if _is_disturbed(history.scenario):
        return []
    return [*_Task(history).problems()]


def _is_disturbed(scenario: Scenario) -> bool:
    """Return whether anything happens but requests and time."""
    if scenario.faults or scenario.needs - {"tasks", "callers", "time"}:
        return True
    return any(step.lost or step.fault is not None for step in scenario.steps)


@dataclass
class _Task:
    """A task as it is read from a history, request by request.

    Attributes:
        history: The history.
        task: The task's id.
        open: The names of the open questions, by key.
        answers: The owner's answers that fit, by the question's name.
        is_refused: Whether the owner declined or cancelled a question.
        is_stopped: Whether the owner had it stopped.
        waited: The seconds since it was created.
        ended: The first response that said it was over.
    """

    history: History
    task: str = ""
    open: dict[str, str] = field(default_factory=dict[str, str])
    answers: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    is_refused: bool = False
    is_stopped: bool = False
    waited: float = 0.0
    ended: Reply | None = None

    def problems(self) -> Iterator[Problem]:
        """Yield the problems, in the history's order."""
        sent_as: dict[int, Sent] = {}
        for event in self.history.events:
            if isinstance(event, Sent):
                sent_as[event.exchange] = event
            elif isinstance(event, Elapsed):
                self.waited += event.seconds
            elif isinstance(event, Received):
                yield from self._check_response(sent_as[event.exchange], event.reply)
        yield from self._check_effects()

    def _check_response(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        where = sent.exchange
        request = sent.request
        if reply.nothing == HUNG:
            is_look = request.method == "tasks/get"
            rule = rules.TASKS_END if is_look else rules.EVERY_REQUEST_IS_ANSWERED
            allowed = "a response that goes on with the call"
            yield rule.broken(where, allowed, self._describe_stuck())
            return
        if reply.malformed is not None:
            allowed = "a response of the protocol"
            yield rules.CONTENT_IS_ONE_TEXT.broken(where, allowed, reply.malformed)
            return
        match request.method:
            case "tools/call":
                yield from self._check_created(where, reply)
            case "tasks/get":
                yield from self._check_look(sent, reply)
            case "tasks/update":
                yield from self._check_update(sent, reply)
            case "tasks/cancel":
                yield from self._check_cancel(sent, reply)
            case _:
                pass

    def _describe_stuck(self) -> str:
        if self.open:
            return f"it waits for {', '.join(self.open.values())}, though the client has answered"
        return "the task does not come to an end"

    def _check_created(self, where: int, reply: Reply) -> Iterator[Problem]:
        if reply.task is None:
            return
        self.task = reply.task
        self.waited = 0.0
        self.ended = None
        yield from self._check_status(where, reply)

    def _check_status(self, where: int, reply: Reply) -> Iterator[Problem]:
        if reply.status not in get_args(Status):
            allowed = f"a status: {', '.join(get_args(Status))}"
            yield rules.CONTENT_IS_ONE_TEXT.broken(where, allowed, repr(reply.status))

    def _is_owners(self, sent: Sent) -> bool:
        return sent.request.principal == OWNER and sent.request.task == self.task

    def _check_look(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        where = sent.exchange
        if not self._is_owners(sent):
            if reply.code is None:
                allowed = "an error: the task is another principal's, or there is none"
                yield rules.TASKS_ARE_THEIR_OWNERS.broken(where, allowed, _describe_task(reply))
            return
        if not sent.request.takes_tasks:
            if reply.code is None:
                allowed = "an error: this request does not declare the extension"
                yield rules.TASKS_ARE_DECLARED.broken(where, allowed, _describe_task(reply))
            return
        if reply.status is None:
            if not self.waited:
                yield rules.TASKS_END.broken(
                    where, "the task, which was handed out", describe_reply(reply)
                )
            return
        yield from self._check_status(where, reply)
        yield from self._check_questions(where, reply)
        if self.ended is not None and not reply.same_as(self.ended):
            allowed = f"what it ended as: {_describe_task(self.ended)}"
            yield rules.TASKS_END.broken(where, allowed, _describe_task(reply))
        elif self.ended is None and reply.status in ENDED:
            self.ended = reply
            yield from self._check_outcome(where, reply)

    def _check_questions(self, where: int, reply: Reply) -> Iterator[Problem]:
        """Hold the questions of a task against those of the page."""
        self.open = {key: reply.name_of(key) for key in reply.questions}
        location = self.history.scenario.location
        for key, message in reply.questions.items():
            one = Reply(questions={key: message}, schemas={key: reply.schemas[key]})
            due = self._allowed_questions(location)
            if not any(question.fits(one) for question in due):
                rule = rules.QUESTIONS_ARE_ASKED_IN_ORDER
                yield rule.broken(where, " or ".join(map(str, due)), describe_reply(one))

    def _possible_places(self, location: str) -> list[str]:
        """Return the places that the call may be about by now."""
        matches = places_meant(location)[-1]
        return list(matches) if len(matches) < 2 else self.answers.get("place", [])

    def _allowed_questions(self, location: str) -> list[Asks]:
        matches = places_meant(location)[-1]
        due = [asks_place(location, matches)] if len(matches) > 1 else []
        return [*due, *map(asks_units, self._possible_places(location))]

    def _check_outcome(self, where: int, reply: Reply) -> Iterator[Problem]:
        """Hold the end of a task against its owner's answers."""
        if self.is_stopped and reply.status == "cancelled":
            return
        if self.is_refused:
            told = any(word in (reply.text or "") for word in ("declined", "cancelled"))
            if reply.text is not None and not reply.is_error and not told:
                allowed = "a text with 'declined' or 'cancelled', or an error"
                yield rules.DECLINE_ENDS_THE_CALL.broken(where, allowed, describe_reply(reply))
            return
        texts = self._allowed_reports()
        if texts and reply.text not in texts:
            allowed = " or ".join(map(quoted, texts))
            yield rules.TASKS_END.broken(where, f"the report {allowed}", _describe_task(reply))

    def _allowed_reports(self) -> list[str]:
        """Return the reports of the answers; none while an answer is missing."""
        places = self._possible_places(self.history.scenario.location)
        return [report(*each) for each in product(places, self.answers.get("units", []))]

    def _check_update(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        if not self._is_owners(sent):
            return
        fits = self._take(sent)
        if reply.code is not None and fits and not self.waited and self.ended is None:
            allowed = "an empty result: the answers fit"
            yield rules.TASKS_END.broken(sent.exchange, allowed, describe_reply(reply))

    def _take(self, sent: Sent) -> bool:
        """Record the answers of an update. Return whether all of them fit."""
        location = self.history.scenario.location
        all_fit = True
        for key, answer in (sent.request.answers or {}).items():
            name = self.open.get(key)
            if name not in ("place", "units"):
                continue
            choices = places_meant(location)[-1] if name == "place" else UNITS
            meaning = interpret(answer, name, choices)
            if meaning.what in ("decline", "cancel"):
                self.is_refused = True
            elif meaning.what in ("fits", "loose"):
                self.answers.setdefault(name, []).append(meaning.value)
            else:
                all_fit = False
        return all_fit

    def _check_cancel(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        if not self._is_owners(sent):
            return
        self.is_stopped = True
        if reply.code is not None and not self.waited:
            yield rules.TASKS_END.broken(sent.exchange, "an empty result", describe_reply(reply))

    def _check_effects(self) -> Iterator[Problem]:
        """Hold the effects against the end of the task."""
        tasks = {got.reply.task for sent, got in self.history.exchanges if sent.request.takes_tasks}
        if len(tasks - {None}) > 1:
            return
        effects = [
            event.effect
            for event in self.history.events
            if isinstance(event, Effect) and not event.absorbed
        ]
        bills = [each.subject for each in effects if each.kind == "bill"]
        if len(bills) > 1:
            yield rules.BILLS_ARE_DUE.broken(None, "at most one bill", f"{len(bills)} bills")
        ended = self.ended.text if self.ended is not None else None
        if ended in self._allowed_reports():
            yield from self._check_due(ended.partition(":")[0], effects)
        elif bills and not self.is_stopped:
            yield rules.BILLS_ARE_DUE.broken(None, "no bill", f"bill of {quoted(bills[0])}")

    def _check_due(self, place: str, effects: list[weather.Effect]) -> Iterator[Problem]:
        """Check that a task that reports a place has billed it, and was audited before."""
        bills = [each.subject for each in effects if each.kind == "bill"]
        if not bills:
            yield rules.A_REPORT_IS_BILLED.broken(None, "a bill", "none")
        elif bills[0] != place:
            allowed = f"a bill of {quoted(place)}"
            yield rules.BILLS_ARE_DUE.broken(None, allowed, f"bill of {quoted(bills[0])}")
        location = self.history.scenario.location
        before = takewhile(lambda each: each.kind != "bill", effects)
        if location not in [each.subject for each in before]:
            allowed = f"an audit of {quoted(location)} before the bill"
            yield rules.AUDIT_COMES_FIRST.broken(None, allowed, "none")


def _describe_task(reply: Reply) -> str:
    """Return a response's description of a task, in words."""
    return (
        describe_reply(reply)
        if reply.status is None
        else f"status {reply.status}: {describe_reply(reply)}"
    )
