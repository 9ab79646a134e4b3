"""The weather tool as a Restate workflow that waits for a durable promise, or an awakeable, at
each question.
"""

import asyncio
import os
import socket
import sys
import time

import httpx
import hypercorn
import hypercorn.asyncio
import restate
import tool

KEYED = sys.argv[1] == "keyed"
"""Answers have an idempotency key."""
AWAKEABLES = sys.argv[1] == "awakeables"
"""Questions wait for an awakeable, whose id the caller holds, in place of a named promise."""
WAIT_SECONDS = 30.0
READ_SECONDS = 10.0
INGRESS = f"http://127.0.0.1:{os.environ['MRTR_PORT']}"
NOT_READY = 470
"""The HTTP status while the workflow has no output yet."""

weather = restate.Workflow("weather")


@weather.main()
async def run(ctx: restate.WorkflowContext, location: str) -> str:
    await ctx.run_typed("audit", tool.audit, location=location)
    place = await ask(ctx, 1, tool.which_place(location))
    if tool.CONSENT and not await ask(ctx, 2, tool.may_bill(place)):
        return "No lookup was made."
    units = await ask(ctx, 3, tool.which_units(place))
    await ctx.run_typed("bill", tool.bill, place=place)
    return tool.report(place, units)


async def ask(ctx: restate.WorkflowContext, number: int, question: dict) -> str:
    if AWAKEABLES:
        awakeable, answered = ctx.awakeable()
        ctx.set("question", question | {"number": number, "awakeable": awakeable})
        return await answered
    promise = ctx.promise(question["key"])
    if await promise.peek() is None:  # what was answered early is not asked
        ctx.set("question", question | {"number": number})
    return await promise.value()


@weather.handler()
async def answer(ctx: restate.WorkflowSharedContext, said: dict) -> None:
    await ctx.promise(said["name"]).resolve(said["value"])


@weather.handler()
async def pending(ctx: restate.WorkflowSharedContext) -> dict | None:
    return await ctx.get("question")


def held(call: str, question: dict) -> dict:
    ids = {"awakeable": question["awakeable"]} if AWAKEABLES else {}
    return {"call": call, "number": question["number"]} | ids


async def resolve(awakeable: str, value: str) -> None:
    async with httpx.AsyncClient(base_url=INGRESS) as ingress:
        response = await ingress.post(f"/restate/awakeables/{awakeable}/resolve", json=value)
    response.raise_for_status()


async def outcome(client: restate.RestateClient, call: str, after: int) -> dict:
    """Wait for the question after a question, or for the result."""
    until = time.monotonic() + WAIT_SECONDS
    async with httpx.AsyncClient(base_url=INGRESS) as ingress:
        while time.monotonic() < until:
            output = await ingress.get(f"/restate/workflow/weather/{call}/output")
            if output.is_success:
                return tool.done(output.json())
            if output.status_code != NOT_READY:
                output.raise_for_status()
            question = await client.workflow_call(pending, key=call, arg=None)
            if question and question["number"] > after:
                return tool.asked(question, held(call, question))
            await asyncio.sleep(0.05)
    if status := await left_to_others(call):
        return tool.parked(status)
    if question:  # an answer that it was not for has left it open
        return tool.asked(question, held(call, question))
    raise TimeoutError("the workflow does not go on")


async def left_to_others(call: str) -> str:
    """Return the status of a call that is pinned to another deployment than this one, else ""."""
    known = tool.STORE / f"port-{'2' if tool.CONSENT else '1'}"
    query = (
        "SELECT i.status AS status, d.endpoint AS endpoint FROM sys_invocation i"
        " JOIN sys_deployment d ON i.pinned_deployment_id = d.id"
        f" WHERE i.target_service_key = '{call}' AND i.target_handler_name = 'run'"
    )
    async with admin() as http:
        answer = await http.post(
            "/query", json={"query": query}, headers={"accept": "application/json"}
        )
    answer.raise_for_status()
    for row in answer.json()["rows"]:
        if not row["endpoint"].rstrip("/").endswith(f":{known.read_text()}"):
            return f"{row['status']}, pinned to the deployment of the first version"
    return ""


async def looked_up(call: str) -> dict:
    """Return the workflow's output, or the question that it has open."""
    until = time.monotonic() + READ_SECONDS
    async with httpx.AsyncClient(base_url=INGRESS) as ingress:
        while time.monotonic() < until:  # what was interrupted goes on by itself
            output = await ingress.get(f"/restate/workflow/weather/{call}/output")
            if output.is_success:
                return tool.done(output.json())
            await asyncio.sleep(0.2)
    if status := await left_to_others(call):
        return tool.parked(status)
    async with restate.create_client(INGRESS) as client:
        question = await client.workflow_call(pending, key=call, arg=None)
    return tool.asked(question, {"call": call})


async def serve(work) -> dict:
    """Serve this version of the workflow while some work is done.

    Every process serves it at the same address.
    """
    known = tool.STORE / f"port-{'2' if tool.CONSENT else '1'}"
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)  # two deliveries at once
    listener.bind(("127.0.0.1", int(known.read_text()) if known.exists() else 0))
    port = listener.getsockname()[1]
    config = hypercorn.Config()
    config.bind = [f"fd://{listener.detach()}"]
    serving = asyncio.create_task(hypercorn.asyncio.serve(restate.app([weather]), config))
    try:
        if not known.exists():
            await register(f"http://127.0.0.1:{port}")
            known.write_text(str(port))
        async with restate.create_client(INGRESS) as client:
            return await work(client)
    finally:
        serving.cancel()


def admin() -> httpx.AsyncClient:
    socket_of = httpx.AsyncHTTPTransport(uds=str(tool.STORE / "server" / "node" / "admin.sock"))
    return httpx.AsyncClient(transport=socket_of, base_url="http://admin", timeout=30)


async def register(address: str) -> None:
    async with admin() as http:
        (await http.post("/deployments", json={"uri": address})).raise_for_status()


def deliver(work) -> dict:
    return asyncio.new_event_loop().run_until_complete(serve(work))


def start(call: str, location: str, user: str) -> dict:
    async def work(client: restate.RestateClient) -> dict:
        await client.workflow_send(run, key=call, arg=location)
        return await outcome(client, call, 0)

    return deliver(work)


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    async def work(client: restate.RestateClient) -> dict:
        key = {"idempotency_key": f"{pause['call']}-{name}"} if KEYED else {}
        said = {"name": name, "value": value}
        if AWAKEABLES:
            await resolve(pause["awakeable"], value)
            return await outcome(client, pause["call"], pause["number"])
        await client.workflow_call(answer, key=pause["call"], arg=said, **key)
        return await outcome(client, pause["call"], pause["number"])

    return deliver(work)


def read(call: str, pause: dict | None, user: str) -> dict:
    async def work(client: restate.RestateClient) -> dict:
        return await looked_up(call)

    return deliver(work)


if __name__ == "__main__":
    tool.deliver(start, resume, read)
    os._exit(0)  # what serves the workflow ends here
