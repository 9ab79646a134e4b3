"""The client: takes a response, gives up waiting, or wants a second call.

Policies: *stops* tells the user of the error; *calls again* makes the call from scratch, once;
*resends* sends the same request again. A sent request is in the set for ever, so resending adds
nothing: the server can take the request again in any case.
"""

from collections.abc import Iterator

from model.world import ATTEMPTS, ROUNDS, START_OVER, Client, Request, Response, Step, World

POLICIES = ("stops", "calls again", "resends")


def steps(world: World, policy: str, wants_second: bool, *, keyed: bool = False) -> Iterator[Step]:
    """Yield what the client may do. One that sends a call key remembers what its user answered."""
    if world.client.told:
        if wants_second:
            yield from want_second(world)
        return
    for response in sorted(world.responses):
        if response.request == world.client.waits_for:
            yield take(world, response, policy, keyed=keyed)
    yield from lose(world, policy)


def take(world: World, response: Response, policy: str, *, keyed: bool) -> Step:
    """Take a response, which may come late or twice.

    MRTR: `input_required` ends the request; the client sends a new request with `inputResponses`
    and the `requestState` as it got it. An unknown outcome is a failure, after which another client
    than one that stops tries again; if that ends in an error, too, the call is lost.
    """
    client = world.client
    if response.error:
        after = fail(world, client, policy)
        is_refusal = response.error == START_OVER or policy != "stops"
        if after.client.told and is_refusal:
            after = after._replace(client=after.client._replace(start_over=True))
        return f"client gets error: {response.error}", after
    if response.asks == ROUNDS:
        return "client gets the result", world._replace(client=client._replace(told="result"))
    answered = list(client.answered)
    most = 1 if keyed else 2
    answered[response.asks - 1] = min(most, answered[response.asks - 1] + 1)
    request = Request(client.waits_for.attempt, response.asks + 1)
    new = client._replace(answered=(answered[0], answered[1]), waits_for=request)
    return f"user answers question {response.asks}", send(world, new)


def lose(world: World, policy: str) -> Iterator[Step]:
    """Give up waiting.

    Changelog, major change 9: "A broken response stream loses the in-flight request; clients
    **MUST** re-issue it as a new request". Shipped clients stop, or their host calls again.
    """
    if policy != "resends":
        yield "client loses the response", fail(world, world.client, policy)


def fail(world: World, client: Client, policy: str) -> World:
    """Call again from scratch if the policy is so, else tell the user of the error."""
    attempt = client.waits_for.attempt
    if policy != "calls again" or attempt == ATTEMPTS or client.wanted > 1:
        return world._replace(client=client._replace(told="error"))
    return send(world, client._replace(waits_for=Request(attempt + 1, 1)))


def want_second(world: World) -> Iterator[Step]:
    """Make the same call on purpose after a result. No sentence forbids a user to want two."""
    client = world.client
    if client.told == "result" and client.waits_for.attempt < ATTEMPTS:
        request = Request(client.waits_for.attempt + 1, 1)
        new = client._replace(waits_for=request, told="", wanted=2, answered=(0, 0))
        yield "user wants a second call", send(world, new)


def send(world: World, client: Client) -> World:
    """Put the client's open request into the set of messages."""
    return world._replace(client=client, requests=world.requests | {client.waits_for})
