"""The weather tool in Agno: a tool that asks for user input for each question."""

import json
import sys

import tool
from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run.requirement import RunRequirement
from agno.tools import tool as agno_tool

CARRIES = sys.argv[1:] == ["carried"]
"""The caller holds the run's requirements, and not only its ids."""


@agno_tool
def log_lookup(location: str) -> str:
    """Log that the weather of a location was asked for."""
    tool.audit(location)
    return location


@agno_tool(requires_user_input=True, user_input_fields=["place"])
def choose_place(location: str, place: str) -> str:
    """Ask the user which of the places with this name is meant."""
    return place


@agno_tool(requires_user_input=True, user_input_fields=["consent"])
def agree(place: str, consent: str) -> str:
    """Ask the user to agree to the bill."""
    return place


@agno_tool(requires_user_input=True, user_input_fields=["units"])
def look_up(place: str, units: str) -> str:
    """Bill a lookup, and return today's weather."""
    tool.bill(place)
    return tool.report(place, units)


class Scripted(Model):
    """A model that calls the tools in order, and ends with the last tool's result."""

    def invoke(self, messages, **more) -> ModelResponse:
        said = {each.tool_name: each.content for each in messages if each.role == "tool"}
        if "look_up" in said:
            return ModelResponse(content=said["look_up"])
        consent = {"agree": {"place": said.get("choose_place")}} if tool.CONSENT else {}
        location = next(each.content for each in messages if each.role == "user")
        plan = {
            "log_lookup": {"location": location},
            "choose_place": {"location": location},
            **consent,
            "look_up": {"place": said.get("choose_place")},
        }
        name, args = next((name, args) for name, args in plan.items() if name not in said)
        call = {"name": name, "arguments": json.dumps(args)}
        return ModelResponse(
            tool_calls=[{"id": f"call-{name}", "type": "function", "function": call}]
        )

    async def ainvoke(self, *args, **more):
        raise NotImplementedError

    def invoke_stream(self, *args, **more):
        raise NotImplementedError

    def ainvoke_stream(self, *args, **more):
        raise NotImplementedError

    def _parse_provider_response(self, response, **more):
        raise NotImplementedError

    def _parse_provider_response_delta(self, response):
        raise NotImplementedError


agent = Agent(
    model=Scripted(id="scripted"),
    tools=[log_lookup, choose_place, agree, look_up],
    db=SqliteDb(db_file=str(tool.STORE / "agno.db")),
    telemetry=False,
)
QUESTIONS = {
    "choose_place": lambda args: tool.which_place(args["location"]),
    "agree": lambda args: tool.may_bill(args["place"]),
    "look_up": lambda args: tool.which_units(args["place"]),
}


def outcome(run) -> dict:
    if not run.is_paused:
        return tool.done(run.content)
    pause = {"session": run.session_id, "run": run.run_id}
    if CARRIES:
        pause["requirements"] = [each.to_dict() for each in run.requirements]
    pending = run.active_requirements[-1].tool_execution
    return tool.asked(QUESTIONS[pending.tool_name](pending.tool_args), pause)


def start(call: str, location: str, user: str) -> dict:
    return outcome(agent.run(location, session_id=call, user_id=user))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    if CARRIES:
        requirements = [RunRequirement.from_dict(each) for each in pause["requirements"]]
    else:
        where = {"run_id": pause["run"], "session_id": pause["session"]}
        requirements = agent.get_run_output(**where).requirements
    for requirement in requirements:
        if requirement.needs_user_input:
            requirement.provide_user_input({name: value})
    run = agent.continue_run(
        run_id=pause["run"],
        session_id=pause["session"],
        user_id=user,
        requirements=requirements,
    )
    return outcome(run)


def read(call: str, pause: dict | None, user: str) -> dict:
    """Return the result of the session's last run, or the question that it has open."""
    return outcome(agent.get_session(session_id=call).runs[-1])


if __name__ == "__main__":
    tool.deliver(start, resume, read)
