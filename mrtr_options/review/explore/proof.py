"""A proof for any number of faults, for subjects that keep nothing on the server.

If a reply and its effects depend on the message alone, then losing, repeating, delaying and
reordering messages, restarts and other instances change nothing but how often each message is
handled. All messages that a client can ever hold are few: each answer to each question, and none.
So the worst case is read off a table: what one delivery of each message does.

The assumption is checked and not believed: every message is handled five times, on both instances,
before and after all other messages, after a restart, and with a state that was handed out another
time. One difference refutes it. The proof is for one version of the code, for effects that do not
fail, and for states that are not too old: for every fault of `bench.explore` but those of `EXCEPT`.

Knows deployments in memory and the player; of subjects only that they can be started.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mrtr_options.review.bench.answers import Accept, UserAnswer
from mrtr_options.review.bench.deployments import Instances
from mrtr_options.review.bench.history import Effect
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.player import on_the_wire
from mrtr_options.review.bench.run import IN_MEMORY
from mrtr_options.review.bench.scenario import CANCEL, DECLINE, calling
from mrtr_options.review.bench.subjects import Subject
from mrtr_options.tool import weather

Message = tuple[str, ...]
"""A message, named by the answers of its call so far: ("Springfield, Ohio", "decline")."""

EXCEPT = "redeploy, expired, fail@"
"""The faults that a proof does not cover, as they are written."""

NONE = "no answer"
NO_CHOICE = "what is no choice"


Handled = tuple[Reply, list[tuple[str, str]]]
"""The outcome of one delivery of a message: the response, and the effects that took place."""


@dataclass
class Proof:
    """A proof for a subject.

    Attributes:
        subject: The subject's name.
        messages: The outcome of one delivery of each message.
        refuted: The first message that was handled in two ways, if any.
    """

    subject: str
    messages: dict[Message, Handled] = field(default_factory=dict[Message, Handled])
    refuted: Message | None = None

    @property
    def holds(self) -> bool:
        """Return whether reply and effects depend on the message alone."""
        return self.refuted is None

    def messages_with(self, effect: str) -> list[Message]:
        """Return the messages of which each delivery brings an effect."""
        return [
            message
            for message, (_, effects) in self.messages.items()
            if any(kind == effect for kind, _ in effects)
        ]

    @property
    def never(self) -> tuple[str, ...]:
        """The anomalies that no number of faults can show; see `judge.anomalies`.

        Each follows from the table of messages: whoever sends one gets this response, whatever went
        before.
        """
        if not self.holds:
            return ()
        found = ["stuck call"]  # no call has more rounds than the table
        good = {
            message: reply
            for message, (reply, _) in self.messages.items()
            if NO_CHOICE not in message
        }
        if all(not reply.is_refusal for reply in good.values()):
            found.append("lost call")
        reports = [message for message in good if message[-1:] in (("metric",), ("imperial",))]
        if all(self._has_effects(message) for message in reports):
            found.append("lost effect")
        if all(good[message].text == _expected_report(*message[-2:]) for message in reports):
            found += ["misrouted answer", "ignored answer"]
        return tuple(found)

    def _has_effects(self, message: Message) -> bool:
        """Return whether a report comes with its bill, and after an audit."""
        so_far = [self.messages[message[:length]][1] for length in range(len(message) + 1)]
        kinds = {kind for effects in so_far for kind, _ in effects}
        return kinds == {"audit", "bill"} and "bill" in dict(so_far[-1])

    @property
    def statement(self) -> str:
        """The conclusion, in a sentence."""
        if self.refuted is not None:
            at = describe_message(self.refuted)
            return f"not proved: what happens at {at} depends on more than the message"
        billing = _describe_requests(self.messages_with("bill"))
        auditing = _describe_requests(self.messages_with("audit"))
        return (
            f"at most one bill each time {billing} arrives, at most one audit each time {auditing}"
            f" arrives, for any number of faults without {EXCEPT} ({len(self.messages)} messages)"
        )


def _expected_report(place: str, units: str) -> str:
    return weather.report(place, weather.UnitsAnswer.model_validate({"units": units}))


def describe_message(message: Message) -> str:
    """Return a message as it is written in a sentence."""
    return f"the answer {' / '.join(message)!r}" if message else "the first request"


def _describe_requests(messages: list[Message]) -> str:
    rounds = sorted({len(message) + 1 for message in messages})
    if rounds == [1, 2, 3]:
        return "a request"
    return f"request {' or '.join(map(str, rounds))}" if rounds else "no request"


async def prove(subject: Subject) -> Proof:
    """Handle every message that a client can hold, each in several contexts.

    Args:
        subject: The subject. It is called for "Springfield", which has every round.

    Raises:
        CannotLoad: The subject cannot be run.
    """
    proof = Proof(subject.name)
    async with IN_MEMORY.started(subject, calling(fleet="free")) as deployment:
        first = Request("Springfield")
        held = await _handle_all(proof, deployment, {(): first}, 0)
        await _compare(proof, deployment, held, 0)
        await _compare(proof, deployment, held, 1)
        await deployment.restart("same")
        await _compare(proof, deployment, held, 0)
        # The same again with states that were handed out another time.
        again = Proof(subject.name)
        await _handle_all(again, deployment, {(): first}, 1)
    for message, handled in proof.messages.items():
        other = again.messages.get(message)
        if proof.refuted is None and (other is None or not _is_same(handled, other)):
            proof.refuted = message
    return proof


async def _handle_all(
    proof: Proof, deployment: Instances, new: dict[Message, Request], instance: int
) -> dict[Message, Request]:
    """Handle messages and all messages that follow from their responses. Return every request."""
    held: dict[Message, Request] = {}
    while new:
        message, request = new.popitem()
        held[message] = request
        reply, _ = proof.messages[message] = await _handle(deployment, instance, request)
        if message[-1:] == (NONE,):  # asks the same again
            continue
        for key in reply.questions:
            for said, answer in _possible_answers(reply, key).items():
                answers = {key: on_the_wire(answer)} if answer is not None else None
                new[*message, said] = Request(request.location, answers, reply.state)
    return held


def _possible_answers(reply: Reply, key: str) -> dict[str, UserAnswer | None]:
    name = reply.name_of(key)
    choices: list[str] = reply.schemas[key]["properties"][name]["enum"]
    return {
        **{choice: Accept({name: choice}) for choice in choices},
        NO_CHOICE: Accept({name: "kelvin"}),
        "decline": DECLINE,
        "cancel": CANCEL,
        NONE: None,
    }


async def _compare(
    proof: Proof, deployment: Instances, held: dict[Message, Request], instance: int
) -> None:
    for message, request in held.items():
        handled = await _handle(deployment, instance, request)
        if proof.refuted is None and not _is_same(handled, proof.messages[message]):
            proof.refuted = message


def _is_same(one: Handled, other: Handled) -> bool:
    return one[0].same_as(other[0]) and one[1] == other[1]


async def _handle(deployment: Instances, instance: int, request: Request) -> Handled:
    before = len(deployment.recording.events)
    reply = await deployment.send(instance, request)
    effects = Counter(
        (event.effect.kind, event.effect.subject)
        for event in deployment.recording.events[before:]
        if isinstance(event, Effect)
    )
    return reply, sorted(effects.elements())
