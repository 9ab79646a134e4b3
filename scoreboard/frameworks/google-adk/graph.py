"""The weather tool as a Google ADK graph with a node for each question and each effect."""

import asyncio

import tool
from google.adk import Event, Workflow
from google.adk.apps import App
from google.adk.events import RequestInput
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

ASKS = "adk_request_input"


def log_lookup(node_input: str) -> Event:
    tool.audit(node_input)
    return Event(state={"location": node_input})


def ask_place(location: str):
    yield asks(tool.which_place(location))


def keep_place(node_input: str) -> Event:
    return Event(state={"place": node_input})


def ask_consent(place: str):
    yield asks(tool.may_bill(place))


def ask_units(place: str):
    yield asks(tool.which_units(place))


def charge(place: str, node_input: str) -> Event:
    tool.bill(place)
    return Event(message=tool.report(place, node_input))


def asks(question: dict) -> RequestInput:
    return RequestInput(message=question["message"], payload=question, response_schema=str)


questions = [ask_place, keep_place, *([ask_consent] if tool.CONSENT else []), ask_units]
weather = Workflow(name="weather", edges=[("START", log_lookup, *questions, charge)])
app = App(name="weather", root_agent=weather)


async def run(session: str, user: str, part: types.Part) -> dict:
    sessions = SqliteSessionService(str(tool.STORE / "sessions.sqlite"))
    where = {"user_id": user, "session_id": session}
    message = types.Content(role="user", parts=[part])
    runner = Runner(app=app, session_service=sessions, auto_create_session=bool(part.text))
    events = [event async for event in runner.run_async(**where, new_message=message)]
    for call in (call for event in events for call in event.get_function_calls()):
        if call.name == ASKS:
            return tool.asked(call.args["payload"], {"session": session, "id": call.id})
    texts = [
        part.text for event in events if event.content for part in event.content.parts if part.text
    ]
    if not texts:
        return tool.silent()
    return tool.done(texts[-1])


async def looked_up(call: str, user: str) -> dict:
    """Return the open question, or the text of the session's last event that has one."""
    sessions = SqliteSessionService(str(tool.STORE / "sessions.sqlite"))
    session = await sessions.get_session(app_name="weather", user_id=user, session_id=call)
    answered = {each.id for event in session.events for each in event.get_function_responses()}
    events = [*reversed(session.events)]
    for asked in (each for event in events for each in event.get_function_calls()):
        if asked.name == ASKS and asked.id not in answered:
            return tool.asked(asked.args["payload"], {"session": call, "id": asked.id})
    for event in events:
        parts = event.content.parts if event.content and event.author != "user" else []
        if texts := [part.text for part in parts if part.text]:
            return tool.done(texts[-1])
    return tool.parked("the session has no text of the run")


def read(call: str, pause: dict | None, user: str) -> dict:
    return asyncio.run(looked_up(call, user))


def start(call: str, location: str, user: str) -> dict:
    return asyncio.run(run(call, user, types.Part(text=location)))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    answer = types.FunctionResponse(id=pause["id"], name=ASKS, response={"result": value})
    return asyncio.run(run(pause["session"], user, types.Part(function_response=answer)))


if __name__ == "__main__":
    tool.deliver(start, resume, read)
