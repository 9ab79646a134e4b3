"""The weather tool as a CrewAI flow that pauses for human feedback at each question."""

import tool
from crewai.flow import (
    Flow,
    HumanFeedbackPending,
    HumanFeedbackProvider,
    HumanFeedbackResult,
    PendingFeedbackContext,
    human_feedback,
    listen,
    start,
)
from crewai.flow.persistence import SQLiteFlowPersistence
from pydantic import BaseModel


class Pauses(HumanFeedbackProvider):
    """A provider that pauses the flow, so that the program's caller gets the question."""

    def request_feedback(self, context: PendingFeedbackContext, flow: Flow) -> str:
        raise HumanFeedbackPending(context=context)


class State(BaseModel):
    id: str = ""
    location: str = ""
    place: str = ""


class Weather(Flow[State]):
    @start()
    def log_lookup(self) -> None:
        tool.audit(self.state.location)

    @listen(log_lookup)
    @human_feedback(message="Which place?", provider=Pauses())
    def ask_place(self) -> dict:
        return tool.which_place(self.state.location)

    @listen(ask_place)
    def keep_place(self, answer: HumanFeedbackResult) -> None:
        self.state.place = answer.feedback

    if tool.CONSENT:

        @listen(keep_place)
        @human_feedback(message="Go on?", provider=Pauses())
        def ask_consent(self) -> dict:
            return tool.may_bill(self.state.place)

    @listen(ask_consent if tool.CONSENT else keep_place)
    @human_feedback(message="Which units?", provider=Pauses())
    def ask_units(self) -> dict:
        return tool.which_units(self.state.place)

    @listen(ask_units)
    def charge(self, answer: HumanFeedbackResult) -> str:
        tool.bill(self.state.place)
        return tool.report(self.state.place, answer.feedback)


persistence = SQLiteFlowPersistence(str(tool.STORE / "flows.sqlite"))


def outcome(result) -> dict:
    if isinstance(result, HumanFeedbackPending):
        return tool.asked(result.context.method_output, {"flow": result.context.flow_id})
    return tool.done(result)


def begin(call: str, location: str, user: str) -> dict:
    return outcome(Weather(persistence=persistence).kickoff({"id": call, "location": location}))


def resume(pause: dict, name: str, value: str, user: str) -> dict:
    return outcome(Weather.from_pending(pause["flow"], persistence).resume(value))


if __name__ == "__main__":
    tool.deliver(begin, resume)
