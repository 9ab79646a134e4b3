"""The client: takes a response, gives up waiting, or wants a second call.

Policies: *stops* tells the user of the error; *calls again* makes the call from scratch, once;
*resends* sends the same request again. A sent request is in the set for ever, so resending adds
nothing: the server can take the request again in any case. A client that *resumes* after its own
death resends from what it has kept (the extra "client dies").
"""

from collections.abc import Iterator

from model.extras import BACK, DIES, EARLY, NONE, Extras
from model.world import (
    ATTEMPTS,
    CONSENT,
    CONSENT_LAST,
    FAILED,
    ROUNDS,
    ENDED,
    SECOND_ERROR,
    SPENT,
    TOO_OLD,
    WITH_CONSENT,
    Client,
    Request,
    Response,
    Step,
    World,
)

POLICIES = ("stops", "calls again", "resends")


def steps(
    world: World,
    policy: str,
    wants_second: bool,
    *,
    keyed: bool = False,
    extras: Extras = NONE,
    attempts: int = ATTEMPTS,
) -> Iterator[Step]:
    """Yield what the client may do. One that sends a call key remembers what its user answered.

    It makes at most `attempts` calls; more of them are only needed to follow another client.
    """
    if world.client.unsaved:
        yield from keep_or_die(world, keyed=keyed)
        return
    if BACK in extras:
        yield from change(world)
    if EARLY in extras and world == World():
        yield answer_early(world)
    if world.client.told:
        if wants_second:
            yield from want_second(world, attempts)
        return
    for response in sorted(world.responses):
        if response.request == world.client.waits_for:
            dies = DIES in extras
            yield from take(world, response, policy, keyed=keyed, dies=dies, attempts=attempts)
    yield from lose(world, policy, attempts)


def take(
    world: World,
    response: Response,
    policy: str,
    *,
    keyed: bool,
    dies: bool,
    attempts: int,
) -> Iterator[Step]:
    """Take a response, which may come late or twice.

    MRTR: `input_required` ends the request; the client sends a new request with `inputResponses`
    and the `requestState` as it got it.
    """
    client = world.client
    if response.error:
        yield from take_error(world, response, policy, keyed=keyed, attempts=attempts)
    elif response.asks == ROUNDS:
        yield "client gets the result", world._replace(client=client._replace(told="result"))
    elif dies and response.asks < ROUNDS:
        unsaved = client._replace(unsaved=response.asks)
        yield f"user answers question {response.asks}", world._replace(client=unsaved)
    else:
        yield answer(world, response.asks, keyed=keyed)


def take_error(
    world: World, response: Response, policy: str, *, keyed: bool, attempts: int
) -> Iterator[Step]:
    """Take an error.

    An unknown outcome is a failure, after which another client than one that stops tries again; if
    that ends in an error, too, the call is lost. A failed effect may be sent again. A client with a
    key asks under it what became of a call whose state is too old, once for each round. One whose
    changed answer is refused goes on with the first one, if it has the response to that.
    """
    client = world.client
    says = f"client gets error: {response.error}"
    may_resend = response.error == FAILED and policy == "resends"
    may_go_back = keyed and policy != "stops" and client.waits_for.round > client.went_back
    if may_resend:
        return
    if response.error == TOO_OLD and may_go_back:
        first = Request(client.waits_for.attempt, 1)
        back = client._replace(waits_for=first, went_back=client.waits_for.round)
        yield says, world._replace(client=back)
        return
    other = client.waits_for._replace(changed=not client.waits_for.changed)
    may_go_on = response.error == SPENT and other in world.requests
    if may_go_on:
        yield f"{says}, which stands", world._replace(client=client._replace(waits_for=other))
    if not may_go_on or policy != "resends":
        after = fail(world, client, policy, attempts)
        may_try_again = response.error in (SECOND_ERROR, ENDED) and policy == "stops"
        is_refusal = response.error not in (TOO_OLD, FAILED) and not may_try_again
        if after.client.told and is_refusal:
            after = after._replace(client=after.client._replace(start_over=True))
        yield says, after


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
    return f"user answers question {question}", send(world, new)


def keep_or_die(world: World, *, keyed: bool) -> Iterator[Step]:
    """Keep an answer and send it, or die before; what is kept is what the client resumes from."""
    client = world.client
    kept = world._replace(client=client._replace(unsaved=0))
    _, after = answer(kept, client.unsaved, keyed=keyed)
    yield "client keeps the answer and sends it", after
    counted = after.client.answered
    yield (
        "client dies and resumes",
        world._replace(client=client._replace(unsaved=0, answered=counted)),
    )


def change(world: World) -> Iterator[Step]:
    """Go back to the last question and answer it otherwise, once in a call."""
    client = world.client
    before = client.waits_for
    is_first = client.changes == 0 and client.wanted == 1 and before.round > 1
    if is_first and client.told != "error":
        new = client._replace(waits_for=before._replace(changed=True), told="", changes=1)
        yield f"user changes the answer of round {before.round}", send(world, new)


def answer_early(world: World) -> Step:
    """Answer every question in the first request."""
    request = Request(1, 1, early=True)
    client = world.client._replace(waits_for=request)
    after = world._replace(client=client, requests=frozenset({request}))
    return "client answers before it is asked", after


def lose(world: World, policy: str, attempts: int) -> Iterator[Step]:
    """Give up waiting.

    Changelog, major change 9: "A broken response stream loses the in-flight request; clients
    **MUST** re-issue it as a new request". Shipped clients stop, or their host calls again.
    """
    if policy != "resends":
        yield "client loses the response", fail(world, world.client, policy, attempts)


def fail(world: World, client: Client, policy: str, attempts: int) -> World:
    """Call again from scratch if the policy is so, else tell the user of the error."""
    attempt = client.waits_for.attempt
    if policy != "calls again" or attempt == attempts or client.wanted > 1:
        return world._replace(client=client._replace(told="error"))
    return send(world, client._replace(waits_for=Request(attempt + 1, 1)))


def want_second(world: World, attempts: int) -> Iterator[Step]:
    """Make the same call on purpose after a result. No sentence forbids a user to want two."""
    client = world.client
    may_want = client.told == "result" and client.changes == 0
    if may_want and client.waits_for.attempt < attempts:
        request = Request(client.waits_for.attempt + 1, 1)
        new = client._replace(waits_for=request, told="", wanted=2, answered=(0, 0))
        yield "user wants a second call", send(world, new)


def send(world: World, client: Client) -> World:
    """Put the client's open request into the set of messages."""
    return world._replace(client=client, requests=world.requests | {client.waits_for})
