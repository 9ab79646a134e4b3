"""The facts about a history, derived once: the ends of its calls, its effects, its user's view.

Properties are checked on a `HistoryReading`. Knows histories and the contract; neither options nor
deployments.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import dropwhile
from typing import Literal

import mcp_types as types

from mrtr_options.review.bench import redeploys
from mrtr_options.review.bench.client.driver import MAX_REQUESTS, REFUSALS
from mrtr_options.review.bench.history import (
    Answered,
    Asked,
    Effect,
    Elapsed,
    Exchanged,
    Failed,
    History,
    Received,
    Redeployed,
    Sent,
)
from mrtr_options.review.bench.messages import LOST, Form, Reply, Request
from mrtr_options.review.bench.steps import AGREE, ENDED, Change
from mrtr_options.review.judge.anomalies import shown_in
from mrtr_options.tool import weather
from mrtr_options.tool.settings import STATE_TTL_SECONDS


class HistoryReading:
    """A history, and what follows from it. Call 1 is the one under review; others disturb it."""

    def __init__(self, history: History) -> None:
        self.history = history

    @cached_property
    def exchanges(self) -> list[Exchanged]:
        """See `History.exchanges`."""
        return self.history.exchanges

    @cached_property
    def deliveries(self) -> list[Exchanged]:
        """The last exchange of each delivery of a sending, in the order of the responses.

        It is the outcome of the delivery, after state-only responses were followed and a task
        reached its status.
        """
        last: dict[tuple[int, int], Exchanged] = {}
        for sent, got in self.exchanges:
            last.pop((sent.sending, sent.delivery), None)
            last[sent.sending, sent.delivery] = sent, got
        return list(last.values())

    @cached_property
    def answers(self) -> list[Answered]:
        """The user's answers."""
        return [event for event in self.history.events if isinstance(event, Answered)]

    # --- effects --------------------------------------------------------------------------------

    def effects(self, kind: str) -> Counter[str]:
        """Count an effect, by subject."""
        return Counter(
            event.effect.subject
            for event in self.history.events
            if isinstance(event, Effect) and not event.absorbed and event.effect.kind == kind
        )

    @property
    def effects_due(self) -> int:
        """The number of times that an effect may take place.

        That is once for each call, and once more for each change of mind.
        """
        given: dict[str, set[str]] = {}
        for event in self.answers:
            if event.call == 1:
                given.setdefault(event.name, set()).add(str(event.content))
        return self.calls + sum(len(each) - 1 for each in given.values())

    @property
    def calls(self) -> int:
        """The number of calls that their users want."""
        return len(self.history.scenario.callers)

    @property
    def bills(self) -> int:
        """The number of bills."""
        return self.effects("bill").total()

    @property
    def audits(self) -> int:
        """The number of audits."""
        return self.effects("audit").total()

    @property
    def bills_of_others(self) -> int:
        """The number of other calls that ended in a result."""
        return len(
            {sent.call for sent, got in self.exchanges if sent.call > 1 and got.reply.is_result}
        )

    @property
    def lacks_effect(self) -> bool:
        """Return whether an effect that the report tells of never took place."""
        return self.effects("bill")[self.place] == 0 or self.audits == 0

    @property
    def reported(self) -> int:
        """The number of calls that got a report."""
        return len({sent.call for sent, got in self.exchanges if _is_report(got.reply.text)})

    @property
    def takes_calls_for_one(self) -> bool:
        """Return whether a second call was refused under the name of the first."""
        names = {sent.call: sent.request.call_name for sent, _ in self.exchanges}
        refused = [sent for sent, got in self.exchanges if sent.call > 1 and got.reply.is_refusal]
        return any(sent.request.named in names.values() for sent in refused if sent.request.named)

    # --- how call 1 ended -----------------------------------------------------------------------

    @cached_property
    def taken(self) -> list[tuple[Sent, Reply]]:
        """The replies that the client goes on from: the first to a sending that it sees."""
        taken: dict[int, tuple[Sent, Reply]] = {}
        for sent, got in self.deliveries:
            if not got.lost:
                taken.setdefault(sent.sending, (sent, got.reply))
        return list(taken.values())

    @cached_property
    def end(self) -> Reply:
        """The last reply of call 1: a result, or else the last that its client went on from."""
        every = [got.reply for sent, got in self.deliveries if sent.call == 1 and not got.lost]
        last = self.replies_to(1)[-1]
        return next((reply for reply in every if reply.is_result), last)

    def replies_to(self, call: int) -> list[Reply]:
        """Return the replies that a call's client saw, after one that is lost."""
        return [Reply(nothing=LOST), *(reply for sent, reply in self.taken if sent.call == call)]

    @cached_property
    def report(self) -> str | None:
        """The text of the result, if it reports a place."""
        return self.end.text if _is_report(self.end.text) else None

    @property
    def has_report(self) -> bool:
        """Return whether the client holds a report."""
        return self.report is not None

    @property
    def has_failed(self) -> bool:
        """Return whether the client holds no report at the end."""
        return self.report is None

    @property
    def place(self) -> str:
        """The place that is reported; empty without a report."""
        return (self.report or "").partition(":")[0]

    @property
    def unheeded(self) -> set[str]:
        """The reported place and units that the user's answers do not contain."""
        if self.report is None:
            return set()
        given = self._given_values()
        places = given.get("place") or set(weather.places_named(self.history.location))
        unheeded = {self.place} - places
        is_assumed = self.report.endswith("(metric assumed: this client cannot be asked)")
        if "units" not in given and is_assumed:
            return unheeded
        units = self._reported_units() or {self.report}
        return unheeded | (units - given.get("units", set()))

    @property
    def reports_another_answer(self) -> bool:
        """Return whether the report is of an answer to another question, or of another call."""
        elsewhere: set[str] = set()
        for event in self.answers:
            content: Mapping[str, object] = event.content or {}
            elsewhere |= {
                str(content[name]) for name in content if (event.call, event.name) != (1, name)
            }
        return bool(self.unheeded & elsewhere)

    def _given_values(self) -> dict[str, set[str]]:
        """Return the values that the user of call 1 gave, by name, also where nobody asked."""
        contents: list[Mapping[str, object]] = []
        for event in self.history.events:
            if isinstance(event, Answered) and event.call == 1 and event.action == "accept":
                contents.append(event.content or {})
            elif isinstance(event, Sent) and event.call == 1:
                for answer in (event.request.answers or {}).values():
                    if isinstance(answer, types.ElicitResult):
                        contents.append(answer.content or {})
        given: dict[str, set[str]] = {}
        for content in contents:
            for name, value in content.items():
                given.setdefault(name, set()).add(str(value))
        return given

    def _reported_units(self) -> set[str]:
        """Return the units that the report is in; none if it is in neither."""
        known: tuple[Literal["metric", "imperial"], ...] = ("metric", "imperial")
        return {
            each
            for each in known
            if self.report == weather.report(self.place, weather.UnitsAnswer(units=each))
        }

    @cached_property
    def _questions_due(self) -> dict[str, Form]:
        """The questions of the version that made the report, by name; empty without a redeploy."""
        history = self.history
        is_redeployed = any(isinstance(event, Redeployed) for event in history.events)
        if self.report is None or not is_redeployed:
            return {}
        return redeploys.questions(self._reporting_version(), history.location, self.place)

    def _reporting_version(self) -> Change | None:
        """Return the version of the code that made the report; None for the first one.

        A result may be sent later than it is made, so the version that billed after the user's last
        answer decides. A bill above a question says nothing about who asked it.
        """
        history = self.history
        versions = dict[int, Change | None]()
        billing: list[Change | None] = []
        for event in history.events:
            match event:
                case Redeployed(change=change):
                    instances = range(history.instances) if event.only is None else (event.only,)
                    versions.update(dict.fromkeys(instances, change))
                case Effect(effect=effect, instance=int(instance)):
                    if effect.kind == "bill" and effect.subject == self.place:
                        billing.append(versions.get(instance))
                case Answered(call=1):
                    billing.clear()
                case Received(call=1) if event.reply.text == self.report:  # later ones repeat it
                    return billing[-1] if billing else versions.get(event.instance)
                case _:
                    pass
        return None

    @cached_property
    def _stale(self) -> dict[str, Form | None]:
        """Return the forms that the user answered of questions that the reporting version changed.

        A question that the user never saw has None.
        """
        shown: dict[str, Form] = {}
        answered: dict[str, Form] = {}
        for event in self.history.events:
            if isinstance(event, Asked) and event.call == 1:
                shown[event.name] = event.form
            elif isinstance(event, Answered) and event.call == 1 and event.name in shown:
                answered[event.name] = shown[event.name]
        due = self._questions_due.items()
        return {name: answered.get(name) for name, form in due if answered.get(name) != form}

    @property
    def is_stale(self) -> bool:
        """Return whether the report is of an answer to what its version asks otherwise."""
        return bool(self._stale) or ("place" in self._questions_due and self.place in self.unheeded)

    @property
    def takes_other_words(self) -> bool:
        """Return whether call 1 completed with an answer to other words, or to another question."""
        # A question is asked again where its answer went to another one.
        return any(self._stale.values()) or (bool(self._stale) and self.is_asked_again)

    @property
    def leaves_out_a_question(self) -> bool:
        """Return whether call 1 completed without a question to which no answer went."""
        return None in self._stale.values() and not self.is_asked_again

    @property
    def is_asked_again(self) -> bool:
        """Return whether the user of call 1 had to answer a question twice."""
        asked: set[str] = set()
        answered: set[str] = set()
        for event in self.history.events:
            if isinstance(event, Answered) and event.call == 1:
                answered |= {event.name} & asked  # not what was said before it was asked
            elif isinstance(event, Asked) and event.call == 1:
                if event.name in answered:
                    return True
                asked.add(event.name)
        return False

    @property
    def was_asked_last(self) -> bool:
        """Return whether the user of call 1 was shown the last question, if their client can.

        It counts as well in another call of theirs, as of the same name.
        """
        users = {sent.call: sent.request.principal for sent, _ in self.exchanges}
        asked = [each for each in self.history.events if isinstance(each, Asked)]
        asked_them = [each.name for each in asked if users.get(each.call) == users.get(1)]
        can_be_asked = all(sent.request.asks for sent, _ in self.exchanges if sent.call == 1)
        return "units" in asked_them or not can_be_asked

    @property
    def never_ends(self) -> bool:
        """Return whether the client of call 1 sent as much as it may, and the call goes on."""
        end = self.end
        sent = [event for event in self.history.events if isinstance(event, Sent)]
        requests = len([event for event in sent if event.call == 1])
        if self.history.gave_up and end.nothing == LOST:
            return False
        sends_no_more = not end.questions or requests >= MAX_REQUESTS
        return not end.is_result and end.code is None and end.status not in ENDED and sends_no_more

    @property
    def is_refused(self) -> bool:
        """Return whether call 1 ended in an error, although its client did nothing wrong."""
        end = self.end
        if not end.is_refusal:
            return False
        if self.history.gave_up and end.code not in REFUSALS:
            return False  # a failure, after which another client sends the round again
        mine = [(sent, got) for sent, got in self.exchanges if sent.call == 1]
        last = self._last_request(mine)
        failed = any(isinstance(event, Failed) for event in self.history.events)
        if end.is_error and (failed or not _has_usual_answers(last.request)):
            return False  # the tool error is due here, or the client may send the round again
        own = [None, *(got.reply.state for _, got in mine)]
        first = mine[0][0].request
        request = last.request
        is_correct = (
            request.state in own
            and request.principal == first.principal
            and request.sent_arguments == first.sent_arguments
        )
        return is_correct and self.ages[last.exchange] <= STATE_TTL_SECONDS

    def _last_request(self, mine: Sequence[Exchanged]) -> Sent:
        """Return the request that a call ended with.

        If it ended in a tool error, that is the request that got the error. Otherwise it is the
        last one whose response arrived.
        """
        end = self.end
        if end.is_error:
            return [sent for sent, got in mine if got.reply is end][-1]
        return [sent for sent, got in mine if got.reply is end or not got.lost][-1]

    # --- requests -------------------------------------------------------------------------------

    @property
    def agrees(self) -> bool:
        """Return whether equal deliveries got equal responses, and finished tasks stayed."""
        first: dict[int, Reply] = {}
        for sent, got in self.deliveries:
            whole = got.reply.nothing is None
            if whole and not got.reply.same_as(first.setdefault(sent.sending, got.reply)):
                return False
        over = self.ended_looks
        return all(reply.same_as(over[0]) for reply in over)

    @cached_property
    def ended_looks(self) -> list[Reply]:
        """Every response with a task's status, from the first that says it has ended."""
        looks = [
            got.reply
            for sent, got in self.exchanges
            if sent.request.method == "tasks/get" and got.reply.status is not None
        ]
        return list(dropwhile(lambda reply: reply.status not in ENDED, looks))

    @cached_property
    def ages(self) -> dict[int, float]:
        """The age of each request's state in seconds; 0 without a state."""
        now = 0.0
        born: dict[str | None, float] = {}
        ages: dict[int, float] = {}
        for event in self.history.events:
            match event:
                case Elapsed(seconds=seconds):
                    now += seconds
                case Received(reply=reply):
                    born[reply.state] = now
                case Sent(request=request):
                    was = now if request.state is None else born.get(request.state, 0.0)
                    ages[event.exchange] = now - was
                case _:
                    pass
        return ages

    @property
    def takes_an_old_state(self) -> bool:
        """Return whether a round was served with a state that is too old."""
        return any(
            not got.reply.is_refusal and got.reply.nothing is None
            for sent, got in self.exchanges
            if self.ages[sent.exchange] > STATE_TTL_SECONDS
        )


def anomalies_in(history: History) -> frozenset[str]:
    """Return the names of the anomalies that a history shows."""
    return shown_in(HistoryReading(history))


def _is_report(text: str | None) -> bool:
    return text is not None and text.partition(":")[0] in weather.REPORTS


def _has_usual_answers(request: Request) -> bool:
    """Return whether a request is a later round with the usual answers, of a client with forms."""
    given = [getattr(each, "content", None) for each in (request.answers or {}).values()]
    agreed = [{name: value} for name, value in AGREE.items()]
    return request.state is not None and request.asks and all(each in agreed for each in given)
