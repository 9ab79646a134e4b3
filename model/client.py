"""The client: takes a response, gives up waiting, or wants a second call.

Policies: *stops* tells the user of the error; *calls again* makes the call from scratch, once;
*resends* sends the same request again. A sent request is in the set for ever, so resending adds
nothing: the server can take the request again in any case. A client that *resumes* after its own
death resends from what it has kept (the extra "client dies").
"""

from collections.abc import Iterator
from typing import NamedTuple

from model.actions import (
    Answers,
    AnswersEarly,
    Changes,
    Dies,
    GetsError,
    GetsResult,
    Keeps,
    Loses,
    Step,
    WantsSecond,
)
from model.extras import BACK, DIES, EARLY, NONE, Extras
from model.world import (
    ATTEMPTS,
    CONSENT,
    CONSENT_LAST,
    ENDED,
    FAILED,
    ROUNDS,
    SECOND_ERROR,
    SPENT,
    TOO_OLD,
    WITH_CONSENT,
    Client,
    Request,
    Response,
    World,
)

POLICIES = ("stops", "calls again", "resends")


class Manner(NamedTuple):
    """The behaviour of a client.

    `policy` is one of `POLICIES`. A `keyed` client sends a call key, and remembers what its user
    answered. It makes at most `attempts` calls; more than two only to follow another client.
    """

    policy: str
    keyed: bool = False
    attempts: int = ATTEMPTS


def steps(
    world: World, manner: Manner, wants_second: bool, extras: Extras = NONE
) -> Iterator[Step]:
    """Yield what the client may do."""
    if world.client.unsaved:
        yield from keep_or_die(world, keyed=manner.keyed)
        return
    if BACK in extras:
        yield from change(world)
    if EARLY in extras and world == World():
        yield answer_early(world)
    if world.client.told:
        if wants_second:
            yield from want_second(world, manner.attempts)
        return
    for response in sorted(world.responses):
        if response.request == world.client.waits_for:
            yield from take(world, response, manner, dies=DIES in extras)
    yield from lose(world, manner)


def take(world: World, response: Response, manner: Manner, *, dies: bool) -> Iterator[Step]:
    """Take a response, which may come late or twice.

    MRTR: `input_required` ends the request; the client sends a new request with `inputResponses`
    and the `requestState` as it got it.
    """
    client = world.client
    if response.error:
        yield from take_error(world, response, manner)
    elif response.asks == ROUNDS:
        yield GetsResult(), world._replace(client=client._replace(told="result"))
    elif dies and response.asks < ROUNDS:
        unsaved = client._replace(unsaved=response.asks)
        yield Answers(response.asks), world._replace(client=unsaved)
    else:
        yield answer(world, response.asks, keyed=manner.keyed)


def take_error(world: World, response: Response, manner: Manner) -> Iterator[Step]:
    """Take an error.

    An unknown outcome is a failure, after which another client than one that stops tries again; if
    that ends in an error, too, the call is lost. A failed effect may be sent again. A client with a
    key asks under it what became of a call whose state is too old, once for each round. One whose
    changed answer is refused goes on with the first one, if it has the response to that.
    """
    client = world.client
    policy = manner.policy
    gets = GetsError(response.error)
    may_resend = response.error == FAILED and policy == "resends"
    may_go_back = manner.keyed and policy != "stops" and client.waits_for.round > client.went_back
    if may_resend:
        return
    if response.error == TOO_OLD and may_go_back:
        first = Request(client.waits_for.attempt, 1)
        back = client._replace(waits_for=first, went_back=client.waits_for.round)
        yield gets, world._replace(client=back)
        return
    other = client.waits_for._replace(changed=not client.waits_for.changed)
    may_go_on = response.error == SPENT and other in world.requests
    if may_go_on:
        stands = GetsError(response.error, stands=True)
        yield stands, world._replace(client=client._replace(waits_for=other))
    if not may_go_on or policy != "resends":
        after = fail(world, client, manner)
        may_try_again = response.error in (SECOND_ERROR, ENDED) and policy == "stops"
        is_refusal = response.error not in (TOO_OLD, FAILED) and not may_try_again
        if after.client.told and is_refusal:
            after = after._replace(client=after.client._replace(start_over=True))
        yield gets, after


def answer(world: World, question: int, *, keyed: bool) -> Step:
    """Answer a question and send the next request."""
    client = world.client
    before = client.waits_for
    if question > WITH_CONSENT:
        before = before._replace(consented=True)
        question -= WITH_CONSENT
    most = 1 if keyed else 2
    answered = list(client.answered)
    if question in (CONSENT, CONSENT_LAST):
        round_ = 2 if question == CONSENT else ROUNDS
        consented = True
    else:
        answered[question - 1] = min(most, answered[question - 1] + 1)
        round_ = question + 1
        consented = before.consented
    is_renewed = round_ <= client.went_back
    request = Request(
        before.attempt, round_, before.changed, consented=consented, renewed=is_renewed
    )
    new = client._replace(answered=(answered[0], answered[1]), waits_for=request)
    return Answers(question), send(world, new)


def keep_or_die(world: World, *, keyed: bool) -> Iterator[Step]:
    """Keep an answer and send it, or die before; what is kept is what the client resumes from."""
    client = world.client
    kept = world._replace(client=client._replace(unsaved=0))
    _, after = answer(kept, client.unsaved, keyed=keyed)
    yield Keeps(), after
    counted = after.client.answered
    yield Dies(), world._replace(client=client._replace(unsaved=0, answered=counted))


def change(world: World) -> Iterator[Step]:
    """Go back to the last question and answer it otherwise, once in a call."""
    client = world.client
    before = client.waits_for
    is_first = client.changes == 0 and client.wanted == 1 and before.round > 1
    if is_first and client.told != "error":
        new = client._replace(waits_for=before._replace(changed=True), told="", changes=1)
        yield Changes(before.round), send(world, new)


def answer_early(world: World) -> Step:
    """Answer every question in the first request."""
    request = Request(1, 1, early=True)
    client = world.client._replace(waits_for=request)
    after = world._replace(client=client, requests=frozenset({request}))
    return AnswersEarly(), after


def lose(world: World, manner: Manner) -> Iterator[Step]:
    """Give up waiting.

    Changelog, major change 9: "A broken response stream loses the in-flight request; clients
    **MUST** re-issue it as a new request". Shipped clients stop, or their host calls again.
    """
    if manner.policy != "resends":
        yield Loses(), fail(world, world.client, manner)


def fail(world: World, client: Client, manner: Manner) -> World:
    """Call again from scratch if the policy is so, else tell the user of the error."""
    attempt = client.waits_for.attempt
    is_over = attempt == manner.attempts or client.wanted > 1
    if manner.policy != "calls again" or is_over:
        return world._replace(client=client._replace(told="error"))
    return send(world, client._replace(waits_for=Request(attempt + 1, 1)))


def want_second(world: World, attempts: int) -> Iterator[Step]:
    """Make the same call on purpose after a result. No sentence forbids a user to want two."""
    client = world.client
    may_want = client.told == "result" and client.changes == 0
    if may_want and client.waits_for.attempt < attempts:
        request = Request(client.waits_for.attempt + 1, 1)
        new = client._replace(waits_for=request, told="", wanted=2, answered=(0, 0))
        yield WantsSecond(), send(world, new)


def send(world: World, client: Client) -> World:
    """Put the client's open request into the set of messages."""
    return world._replace(client=client, requests=world.requests | {client.waits_for})
