"""The weather tool as two tools of a Google ADK agent: the answer comes with a confirmation."""

import asyncio

import tool
from google.adk import Agent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.adk.tools import ToolContext
from google.genai import types

ASKS = "adk_request_confirmation"


def choose_place(location: str, tool_context: ToolContext) -> dict:
    """Ask the user which of the places with this name is meant."""
    tool.audit(location)
    return confirmed(tool_context, tool.which_place(location))


def agree(place: str, tool_context: ToolContext) -> dict:
    """Ask the user to agree to the bill."""
    return confirmed(tool_context, tool.may_bill(place))


def look_up(place: str, tool_context: ToolContext) -> dict:
    """Bill a lookup, and return today's weather."""
    said = confirmed(tool_context, tool.which_units(place))
    if "units" not in said:
        return said
    tool.bill(place)
    return {"report": tool.report(place, said["units"])}


def confirmed(tool_context: ToolContext, question: dict) -> dict:
    if not tool_context.tool_confirmation:
        tool_context.request_confirmation(hint=question["message"], payload=question)
        return {"status": "An answer is required."}
    return tool_context.tool_confirmation.payload


class Scripted(BaseLlm):
    """A model that calls the tools in order, and ends with the last tool's result."""

    async def generate_content_async(self, llm_request, stream=False):
        parts = [part for content in llm_request.contents for part in content.parts or []]
        said = {}
        for part in parts:
            if part.function_response:
                said |= part.function_response.response
        plan = {"place": choose_place, "consent": agree, "report": look_up}
        if not tool.CONSENT:
            del plan["consent"]
        left = [] if "report" in said else [key for key in plan if key not in said]
        waits = parts[-1].function_response and "status" in parts[-1].function_response.response
        if left and not waits:
            about = {"location": parts[0].text} if left[0] == "place" else {"place": said["place"]}
            call = {"name": plan[left[0]].__name__, "args": about, "id": f"call-{left[0]}"}
            part = types.Part(function_call=call)
        else:
            part = types.Part(text=said["status"] if waits else said["report"])
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


agent = Agent(
    name="weather", model=Scripted(model="scripted"), tools=[choose_place, agree, look_up]
)
app = App(name="weather", root_agent=agent)


async def run(session: str, user: str, part: types.Part) -> dict:
    sessions = SqliteSessionService(str(tool.STORE / "sessions.sqlite"))
    where = {"user_id": user, "session_id": session}
    message = types.Content(role="user", parts=[part])
    runner = Runner(app=app, session_service=sessions, auto_create_session=bool(part.text))
    events = [event async for event in runner.run_async(**where, new_message=message)]
    for call in (call for event in events for call in event.get_function_calls()):
        if call.name == ASKS:
            question = call.args["toolConfirmation"]["payload"]
            return tool.asked(question, {"session": session, "id": call.id})
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
            return tool.asked(asked.args["toolConfirmation"]["payload"], {"session": call})
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
    response = {"confirmed": True, "payload": {name: value}}
    answer = types.Part(function_response={"id": pause["id"], "name": ASKS, "response": response})
    return asyncio.run(run(pause["session"], user, answer))


if __name__ == "__main__":
    tool.deliver(start, resume, read)
