"""The rules for tasks, which a server hands out to clients that declare the extension.

The call of a task is the call of the page: it asks the same questions and ends in the same report.
The rules for ids, statuses, updates and cancelling are the extension's own. Runs in which a server
ends, a response is lost or an effect fails are left to the option's guarantees.

Knows the requests of a history; nothing of how tasks are kept. Source: SEP-2663.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import get_args

from mrtr_options.review.bench.history import HUNG, Effect, Elapsed, History, Received, Reply, Sent
from mrtr_options.review.bench.scenario import ENDED, Create, Scenario, Send, Status, Update
from mrtr_options.review.bench.telling import came, quoted
from mrtr_options.review.judge.contract.answers import UNITS, Name, meanings, said
from mrtr_options.review.judge.contract.kinds import Asks, asks_place, asks_units, report
from mrtr_options.review.judge.properties import Problem

OWNER = "alice"
"""The principal who owns the task."""


def has_tasks(history: History) -> bool:
    """Return whether a client that declared the extension was handed a task."""
    return any(
        got.reply.task is not None and sent.request.takes_tasks for sent, got in history.exchanges
    )


def wrong_tasks(history: History) -> list[Problem]:
    """Return the problems of a history's task; none if a fault disturbed it on its way."""
    if _is_disturbed(history.scenario):
        return []
    return [*_Task(history).problems()]


def _is_disturbed(scenario: Scenario) -> bool:
    """Return whether anything happens but requests and time."""
    if scenario.faults or scenario.needs - {"tasks", "callers", "time"}:
        return True
    return any(
        isinstance(step, Create | Update | Send) and (step.lost or step.fault is not None)
        for step in scenario.steps
    )


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
                yield from self._response(sent_as[event.exchange], event.reply)
        yield from self._effects()

    def _response(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        where = sent.exchange
        request = sent.request
        if reply.nothing == HUNG:
            rule = "tasks-end" if request.method == "tasks/get" else "every-request-is-answered"
            yield Problem(rule, where, "a response that goes on with the call", self._stuck())
            return
        if reply.malformed is not None:
            allowed = "a response of the protocol"
            yield Problem("content-is-one-text", where, allowed, reply.malformed)
            return
        match request.method:
            case "tools/call":
                yield from self._created(where, reply)
            case "tasks/get":
                yield from self._looked_at(sent, reply)
            case "tasks/update":
                yield from self._updated(sent, reply)
            case "tasks/cancel":
                yield from self._cancelled(sent, reply)
            case _:
                pass

    def _stuck(self) -> str:
        if self.open:
            return f"it waits for {', '.join(self.open.values())}, though the client has answered"
        return "the task does not come to an end"

    def _created(self, where: int, reply: Reply) -> Iterator[Problem]:
        if reply.task is None:
            return
        self.task = reply.task
        self.waited = 0.0
        self.ended = None
        if reply.status not in get_args(Status):
            allowed = f"a status: {', '.join(get_args(Status))}"
            yield Problem("content-is-one-text", where, allowed, repr(reply.status))

    def _is_owners(self, sent: Sent) -> bool:
        return sent.request.principal == OWNER and sent.request.task == self.task

    def _looked_at(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        where = sent.exchange
        if not self._is_owners(sent):
            if reply.code is None:
                allowed = "an error: the task is another principal's, or there is none"
                yield Problem("tasks-are-their-owners", where, allowed, _state_of(reply))
            return
        if not sent.request.takes_tasks:
            if reply.code is None:
                allowed = "an error: this request does not declare the extension"
                yield Problem("tasks-are-declared", where, allowed, _state_of(reply))
            return
        if reply.status is None:
            if not self.waited:
                yield Problem("tasks-end", where, "the task, which was handed out", came(reply))
            return
        if reply.status not in get_args(Status):
            allowed = f"a status: {', '.join(get_args(Status))}"
            yield Problem("content-is-one-text", where, allowed, repr(reply.status))
        yield from self._asked(where, reply)
        if self.ended is not None and not reply.same_as(self.ended):
            allowed = f"what it ended as: {_state_of(self.ended)}"
            yield Problem("tasks-end", where, allowed, _state_of(reply))
        elif self.ended is None and reply.status in ENDED:
            self.ended = reply
            yield from self._outcome(where, reply)

    def _asked(self, where: int, reply: Reply) -> Iterator[Problem]:
        """Hold the questions of a task against those of the page."""
        self.open = {key: reply.name_of(key) for key in reply.questions}
        location = self.history.scenario.location
        for key, message in reply.questions.items():
            one = Reply(questions={key: message}, schemas={key: reply.schemas[key]})
            due = self._questions(location)
            if not any(question.fits(one) for question in due):
                rule = "questions-are-asked-in-order"
                yield Problem(rule, where, " or ".join(map(str, due)), came(one))

    def _places(self, location: str) -> list[str]:
        """Return the places that the call may be about by now."""
        matches = meanings(location)[-1]
        return list(matches) if len(matches) < 2 else self.answers.get("place", [])

    def _questions(self, location: str) -> list[Asks]:
        matches = meanings(location)[-1]
        due = [asks_place(location, matches)] if len(matches) > 1 else []
        return [*due, *map(asks_units, self._places(location))]

    def _outcome(self, where: int, reply: Reply) -> Iterator[Problem]:
        """Hold the end of a task against its owner's answers."""
        if self.is_stopped and reply.status == "cancelled":
            return
        if self.is_refused:
            if reply.text is not None and not reply.is_error and "declined" not in reply.text:
                rule = "decline-ends-the-call"
                yield Problem(rule, where, "a text with 'declined', or an error", came(reply))
            return
        texts = self._reports()
        if texts and reply.text not in texts:
            allowed = " or ".join(map(quoted, texts))
            yield Problem("tasks-end", where, f"the report {allowed}", _state_of(reply))

    def _reports(self) -> list[str]:
        """Return the reports of the answers; none while an answer is missing."""
        places = self._places(self.history.scenario.location)
        return [report(*each) for each in product(places, self.answers.get("units", []))]

    def _updated(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        if not self._is_owners(sent):
            return
        fits = self._take(sent)
        if reply.code is not None and fits and not self.waited and self.ended is None:
            allowed = "an empty result: the answers fit"
            yield Problem("tasks-end", sent.exchange, allowed, came(reply))

    def _take(self, sent: Sent) -> bool:
        """Record the answers of an update. Return whether all of them fit."""
        location = self.history.scenario.location
        all_fit = True
        for key, answer in (sent.request.answers or {}).items():
            name = self.open.get(key)
            if name not in ("place", "units"):
                continue
            choices = meanings(location)[-1] if name == "place" else UNITS
            which: Name = "place" if name == "place" else "units"
            here = said(answer, which, choices)
            if here.what in ("decline", "cancel"):
                self.is_refused = True
            elif here.what in ("fits", "loose"):
                self.answers.setdefault(name, []).append(here.value)
            else:
                all_fit = False
        return all_fit

    def _cancelled(self, sent: Sent, reply: Reply) -> Iterator[Problem]:
        if not self._is_owners(sent):
            return
        self.is_stopped = True
        if reply.code is not None and not self.waited:
            yield Problem("tasks-end", sent.exchange, "an empty result", came(reply))

    def _effects(self) -> Iterator[Problem]:
        """Hold the bills against the end of the task."""
        bills = [
            event.effect.subject
            for event in self.history.events
            if isinstance(event, Effect) and event.effect.kind == "bill" and not event.absorbed
        ]
        tasks = {got.reply.task for sent, got in self.history.exchanges if sent.request.takes_tasks}
        if len(tasks - {None}) > 1:
            return
        reported = self.ended is not None and self.ended.text in self._reports()
        if reported and not bills:
            yield Problem("a-report-is-billed", None, "a bill", "none")
        if bills and not reported and not self.is_stopped:
            yield Problem("bills-are-due", None, "no bill", f"bill of {quoted(bills[0])}")
        if len(bills) > 1:
            yield Problem("bills-are-due", None, "at most one bill", f"{len(bills)} bills")


def _state_of(reply: Reply) -> str:
    """Return a response's description of a task, in words."""
    return came(reply) if reply.status is None else f"status {reply.status}: {came(reply)}"
