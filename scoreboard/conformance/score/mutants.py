"""Servers that break one sentence of the specification each, made from the correct server.

A mutant is a small change: a subclass with one method, whose docstring names the fault. `MUTANTS`
has the mutants by name, as `requirements.toml` refers to them. Knows the correct server.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar, cast

from scoreboard.conformance.score.correct import (
    BROWSE,
    CONFIRM,
    STRING,
    Fixture,
    Json,
    Question,
    Refused,
    Request,
    Tool,
    content,
    digest,
)

Of = TypeVar("Of")

MUTANTS: dict[str, type[Fixture]] = {}


def entered(into: dict[str, type[Of]]) -> Callable[[type[Of]], type[Of]]:
    """Return a decorator that adds a class to a dictionary: `AsksInAList` as `asks-in-a-list`."""

    def enter(of: type[Of]) -> type[Of]:
        name = "".join(f"-{each.lower()}" if each.isupper() else each for each in of.__name__)
        into[name.removeprefix("-")] = of
        return of

    return enter


mutant = entered(MUTANTS)


# --- multi round-trip requests --------------------------------------------------------------------


@mutant
class PushesRequests(Fixture):
    """It still sends `elicitation/create` to the client, on the response stream."""

    def before_response(self) -> list[Json]:
        return [
            {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": CONFIRM.params}
        ]


@mutant
class AsksInAList(Fixture):
    """It answers `tools/list` with a question."""

    def list_tools(self, request: Request) -> Json:
        return {"resultType": "input_required", "requestState": "list"}


@mutant
class DuplicateKeys(Fixture):
    """Two questions of one response have the same key, so a client sees the last one only."""

    def encoded(self, message: Json) -> str:
        return super().encoded(message).replace('"greeting": {', '"user_name": {')


@mutant
class InventsAMethod(Fixture):
    """It asks with a method that no client knows."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        return asked | {"method": "elicitation/form"} if question.key == "confirm" else asked


@mutant
class UnsignedState(Fixture):
    """The state is plain JSON in base64, which anyone can rewrite."""

    def mac(self, payload: str) -> str:
        return ""


@mutant
class ChecksNoSignature(Fixture):
    """The state is signed, and the signature is not looked at."""

    def verified(self, payload: str, mac: str) -> bool:
        return True


@mutant
class StateOfAnyone(Fixture):
    """A state is good for whoever has it."""

    def user(self, request: Request) -> str:
        return ""


@mutant
class StateForEver(Fixture):
    """A state does not expire."""

    def expired(self, until: float) -> bool:
        return False


@mutant
class StateOfAnyTool(Fixture):
    """A state of one tool is good for another."""

    def salient(self, request: Request) -> str:
        return digest([request.method, request.arguments])


@mutant
class StateOfAnyArguments(Fixture):
    """A state is good for other arguments of its tool."""

    def salient(self, request: Request) -> str:
        return digest([request.method, request.name])


@mutant
class StateUsedTwice(Fixture):
    """A last round that is delivered twice has its effect twice."""

    def recorded(self, state: Json) -> Json | None:
        return None


@mutant
class EmptyInputRequired(Fixture):
    """A response asks for input and has neither questions nor a state."""

    def input_required(self, requests: dict[str, Json], state: str) -> Json:
        if "confirm" not in requests:
            return super().input_required(requests, state)
        return {"resultType": "input_required"}


@mutant
class AsksTheUndeclared(Fixture):
    """It asks for what the client did not declare."""

    def can_ask(self, request: Request, question: Question) -> bool:
        return True


@mutant
class WaitsForTheRetry(Fixture):
    """A call whose client does not come back blocks its tool."""

    def __init__(self) -> None:
        super().__init__()
        self.open: set[str] = set()

    def begun(self, tool: Tool, request: Request) -> None:
        if tool.name in self.open:
            raise Refused("A call is in progress")
        self.open.add(tool.name)

    def complete(self, tool: Tool, answers: Json, request: Request) -> Json:
        self.open.discard(tool.name)
        return super().complete(tool, answers, request)


@mutant
class TakesAnyResponse(Fixture):
    """A response that is no object counts as an answer."""

    def well_formed(self, response: Any) -> bool:
        return True

    def fits(self, question: Question, response: Any) -> bool:
        return not isinstance(response, dict) or super().fits(question, cast(Json, response))

    def refusal(self, response: Any) -> Json | None:
        return super().refusal(cast(Json, response)) if isinstance(response, dict) else None


@mutant
class TakesNullForResponses(Fixture):
    """`inputResponses: null` is an answer to everything."""

    def call(self, tool: Tool, request: Request) -> Json:
        if request.params.get("inputResponses", {}) is None:
            return content("state-ok")
        return super().call(tool, request)


@mutant
class PlainTextOnBadJson(Fixture):
    """The answer to a body that is no JSON is a line of text."""

    def encoded(self, message: Json) -> str:
        malformed = message.get("error", {}).get("code") == -32700
        return "Bad Request" if malformed else super().encoded(message)


@mutant
class RefusesUnknownKeys(Fixture):
    """A response to a question that it did not ask is an error."""

    def known(self, tool: Tool, responses: Json) -> Json:
        known = super().known(tool, responses)
        if known and len(known) < len(responses):
            raise Refused("Unexpected response")
        return known


@mutant
class FailsOnMissingAnswers(Fixture):
    """An answer that is missing is an error."""

    def missing(self, questions: list[Question]) -> None:
        raise Refused("Missing answers")


@mutant
class OmitsResultType(Fixture):
    """An InputRequiredResult does not say that it is one."""

    def input_required(self, requests: dict[str, Json], state: str) -> Json:
        result = super().input_required(requests, state)
        del result["resultType"]
        return result


# --- elicitation ----------------------------------------------------------------------------------


@mutant
class AsksForAPassword(Fixture):
    """A form asks for a password."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question.key != "user_name":
            return asked
        schema = {"type": "object", "properties": {"name": STRING, "password": STRING}}
        return asked | {"params": question.params | {"requestedSchema": schema}}


@mutant
class AsksInAnyMode(Fixture):
    """It asks a client that has forms to open a URL, and the other way around."""

    def can_ask(self, request: Request, question: Question) -> bool:
        method = question.method.partition("/")[0]
        return method in request.capabilities


@mutant
class OmitsTheMessage(Fixture):
    """A question does not say why it is asked."""

    def asked(self, question: Question) -> Json:
        params = {name: value for name, value in question.params.items() if name != "message"}
        return {"method": question.method, "params": params}


@mutant
class OmitsTheSchema(Fixture):
    """A form has no fields."""

    def asked(self, question: Question) -> Json:
        params = {
            name: value for name, value in question.params.items() if name != "requestedSchema"
        }
        return {"method": question.method, "params": params}


class _Url(Fixture):
    """Changes the question that opens a URL."""

    def changed(self, params: Json) -> Json:
        raise NotImplementedError

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        return (
            asked | {"params": self.changed(dict(question.params))} if question == BROWSE else asked
        )


@mutant
class OmitsTheUrl(_Url):
    """A question in URL mode has no URL."""

    def changed(self, params: Json) -> Json:
        del params["url"]
        return params


@mutant
class BrokenUrl(_Url):
    """The URL of a question is none."""

    def changed(self, params: Json) -> Json:
        return params | {"url": "connect here"}


@mutant
class UrlNamesTheUser(_Url):
    """The URL of a question has the user's e-mail address in it."""

    def changed(self, params: Json) -> Json:
        return params | {"url": f"{params['url']}?email=alice@example.com"}


@mutant
class UrlSignsIn(_Url):
    """Whoever has the URL of a question is signed in by it."""

    def changed(self, params: Json) -> Json:
        return params | {"url": f"{params['url']}?access_token=8c1f0d"}


@mutant
class PlainHttpUrl(_Url):
    """The URL of a question is not HTTPS."""

    def changed(self, params: Json) -> Json:
        return params | {"url": "http://example.com/connect"}


@mutant
class LinkInAForm(Fixture):
    """The message of a form has a link in it."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question.params.get("mode") != "form":
            return asked
        message = f"{question.params['message']} See https://example.com/more"
        return asked | {"params": question.params | {"message": message}}


@mutant
class AnswersOfAnyUser(Fixture):
    """Answers are kept on the server by tool, so that one user's answer counts for the next one."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Json] = {}

    def known(self, tool: Tool, responses: Json) -> Json:
        known = super().known(tool, responses)
        if tool.needs_state:
            self.kept.setdefault(tool.name, {}).update(known)
            return self.kept[tool.name]
        return known


@mutant
class UserFromAHeader(Fixture):
    """The user is who the client says it is, in a header of its own."""

    def user(self, request: Request) -> str:
        return request.headers.get("x-user", "")


@mutant
class DeclineIsYes(Fixture):
    """A declined question counts as answered."""

    def refusal(self, response: Json) -> Json | None:
        return None if response.get("action") == "decline" else super().refusal(response)


@mutant
class CancelIsAnError(Fixture):
    """A cancelled question ends in an internal error."""

    def refusal(self, response: Json) -> Json | None:
        if response.get("action") == "cancel":
            raise Refused("Internal error", -32603)
        return super().refusal(response)


@mutant
class TakesAnyContent(Fixture):
    """The content of an answer is not held against the schema."""

    def fits(self, question: Question, response: Json) -> bool:
        return True


# --- tools ----------------------------------------------------------------------------------------


@mutant
class DeclaresNoTools(Fixture):
    """It has tools and does not declare them."""

    def capabilities(self) -> Json:
        return {"prompts": {}, "resources": {}}


@mutant
class ListsNoTools(Fixture):
    """It declares tools and does not list them."""

    def list_tools(self, request: Request) -> Json:
        raise Refused("Method not found: tools/list", -32601, 404)


@mutant
class ListChangesWithCalls(Fixture):
    """Each call of a tool adds another one to the list."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def call_tool(self, request: Request) -> Json:
        self.calls += 1
        return super().call_tool(request)

    def tools(self) -> list[Json]:
        return super().tools() + [self.tool(f"more_{number}") for number in range(self.calls)]


@mutant
class ShufflesTools(Fixture):
    """Every second list of tools is in reverse order."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = 0

    def tools(self) -> list[Json]:
        self.listed += 1
        return super().tools()[:: -1 if self.listed % 2 else 1]


class _Another(Fixture):
    """Lists one tool more."""

    def more(self) -> Json:
        raise NotImplementedError

    def tools(self) -> list[Json]:
        return [*super().tools(), self.tool("test_another") | self.more()]


@mutant
class NullSchema(_Another):
    """A tool's input schema is null."""

    def more(self) -> Json:
        return {"inputSchema": None}


@mutant
class LongName(_Another):
    """A tool's name has 129 characters."""

    def more(self) -> Json:
        return {"name": "t" * 129}


@mutant
class NameInCapitals(Fixture):
    """Names of tools are found in any case."""

    def named(self, name: str) -> str:
        return name.lower()


@mutant
class StrangeName(_Another):
    """A tool's name has an exclamation mark."""

    def more(self) -> Json:
        return {"name": "test!"}


@mutant
class NameWithSpaces(_Another):
    """A tool's name has spaces."""

    def more(self) -> Json:
        return {"name": "test a tool"}


@mutant
class SameNameTwice(_Another):
    """Two tools have the same name."""

    def more(self) -> Json:
        return {"name": "test_simple_text"}


def _header(*values: str, kind: str = "string") -> Json:
    properties = {
        f"p{index}": {"type": kind, "x-mcp-header": each} for index, each in enumerate(values)
    }
    return {"inputSchema": {"type": "object", "properties": properties}}


@mutant
class EmptyHeader(_Another):
    """The header of a parameter is empty."""

    def more(self) -> Json:
        return _header("")


@mutant
class HeaderWithSpaces(_Another):
    """The header of a parameter is no token."""

    def more(self) -> Json:
        return _header("My Region")


@mutant
class HeaderWithLineFeed(_Another):
    """The header of a parameter has a line feed."""

    def more(self) -> Json:
        return _header("Region\nX-Evil")


@mutant
class SameHeaderTwice(_Another):
    """Two parameters have the same header."""

    def more(self) -> Json:
        return _header("Region", "region")


@mutant
class HeaderOfANumber(_Another):
    """A parameter with a header is a number."""

    def more(self) -> Json:
        return _header("Region", kind="number")


@mutant
class HeaderInAnArray(_Another):
    """A parameter with a header is an item of an array."""

    def more(self) -> Json:
        return {
            "inputSchema": {
                "type": "object",
                "properties": {
                    "list": {"type": "array", "items": {"type": "string", "x-mcp-header": "Region"}}
                },
            }
        }


@mutant
class SecretInAHeader(_Another):
    """A password is mirrored into a header."""

    def more(self) -> Json:
        return {
            "inputSchema": {
                "type": "object",
                "properties": {"password": STRING | {"x-mcp-header": "Password"}},
            }
        }


@mutant
class NoResourcesCapability(Fixture):
    """A tool embeds a resource, and the server declares no resources."""

    def capabilities(self) -> Json:
        return {"tools": {}, "prompts": {}}


@mutant
class StructuredWithoutText(Fixture):
    """A structured result has no text for older clients."""

    def structured(self, count: int) -> Json:
        return super().structured(count) | {"content": []}


@mutant
class StructuredOffSchema(Fixture):
    """A structured result is not as the tool's schema says."""

    def structured(self, count: int) -> Json:
        return content(json.dumps(count), structuredContent={"effects": str(count)})


@mutant
class TakesAnyArguments(Fixture):
    """Arguments are not held against the schema."""

    def check_arguments(self, request: Request) -> None:
        return None


# --- lost streams ---------------------------------------------------------------------------------


@mutant
class WorksOnAfterClose(Fixture):
    """Work goes on when the client has closed the response stream, and has its effect."""

    def works_on(self) -> bool:
        return True
