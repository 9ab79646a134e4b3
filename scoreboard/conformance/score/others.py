"""Servers that break a sentence in another way than its mutant does.

The scenarios were written for the mutants, so the mutants cannot show what else the scenarios would
find. These programs can: ten rows of `requirements.toml` were drawn (`random.Random(33)`), and each
got a second way to break it, by an engineer who had not read the scenarios. Two draws before it
have served to mend the scenarios; since this one was measured nothing was mended. Knows the correct
server.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from typing import Any

import anyio

from scoreboard.conformance.score.correct import (
    BROWSE,
    STRING,
    Fixture,
    Json,
    Question,
    Refused,
    Request,
    Tool,
    schema_of,
)
from scoreboard.conformance.score.mutants import entered

OTHERS: dict[str, type[Fixture]] = {}
third = entered(OTHERS)


@third
class CannotBeCancelledHalfway(Fixture):
    """Once half of the work of a call is done, it works on where the client closes the stream."""

    async def slow(self, request: Request) -> AsyncGenerator[str]:
        yield ": working\n\n"
        await anyio.sleep(0.5)
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.5)
            self.effects[request.order] += 1
        result = self.structured(self.effects[request.order])
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        yield f"data: {self.encoded(answer)}\n\n"


@third
class AsksAgainWithoutAMessage(Fixture):
    """A form that is asked again, as its answer was missing or unfit, has no message."""

    again = False

    def missing(self, questions: list[Question]) -> None:
        self.again = True

    def input_required(self, requests: dict[str, Json], state: str) -> Json:
        again, self.again = self.again, False
        for asked in requests.values() if again else ():
            if asked["params"].get("mode") == "form":
                asked["params"] = {
                    key: of for key, of in asked["params"].items() if key != "message"
                }
        return super().input_required(requests, state)


@third
class UrlWithTheCredentials(Fixture):
    """The query of a URL has the caller's credentials in base64, to know who comes back."""

    principal = ""

    def call(self, tool: Tool, request: Request) -> Json:
        self.principal = request.principal
        return super().call(tool, request)

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question != BROWSE or not self.principal:
            return asked
        state = base64.urlsafe_b64encode(self.principal.encode()).decode().rstrip("=")
        return asked | {
            "params": question.params | {"url": f"{question.params['url']}?state={state}"}
        }


@third
class ReadsTheTokenUnverified(Fixture):
    """The user is the subject that a JWT names, and its signature is not looked at."""

    def user(self, request: Request) -> str:
        try:
            payload = request.principal.split(".")[1]
            claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return str(claims["sub"])
        except (IndexError, KeyError, TypeError, ValueError):
            return super().user(request)


@third
class HeaderOfOneOrMany(Fixture):
    """A parameter that is a string or a list of strings has a header."""

    def tools(self) -> list[Json]:
        many = {"type": "array", "items": STRING}
        schema = schema_of(region={"anyOf": [STRING, many], "x-mcp-header": "Region"})
        return [*super().tools(), self.tool("test_another") | {"inputSchema": schema}]


@third
class NullForAMode(Fixture):
    """The mode of a form is null where the client declares elicitation and no modes."""

    modes: Json | None = None

    def call(self, tool: Tool, request: Request) -> Json:
        self.modes = request.capabilities.get("elicitation")
        return super().call(tool, request)

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question.params.get("mode") != "form" or self.modes:
            return asked
        return asked | {"params": question.params | {"mode": None}}


@third
class ListsForThoseWhoCanBeAsked(Fixture):
    """Listing the tools fails with an internal error where the client declares no elicitation."""

    def list_tools(self, request: Request) -> Json:
        if "elicitation" not in request.capabilities:
            raise Refused("Internal error: KeyError: 'elicitation'", -32603, 500)
        return super().list_tools(request)


@third
class HeaderWithASlash(Fixture):
    """The header of a property of a parameter is its path, with a slash."""

    def tools(self) -> list[Json]:
        region = STRING | {"x-mcp-header": "To/Region"}
        schema = schema_of(to={"type": "object", "properties": {"region": region}})
        return [*super().tools(), self.tool("test_another") | {"inputSchema": schema}]


@third
class DeclaresNoToolsToUsers(Fixture):
    """A request with credentials is told of prompts and resources, and not of the tools."""

    def respond(self, request: Request) -> Json:
        result = super().respond(request)
        if request.method == "server/discover" and request.principal:
            del result["capabilities"]["tools"]
        return result


@third
class PlainHttpForAnOrder(Fixture):
    """The URL of a call with an order is plain HTTP, and that of one without is HTTPS."""

    order = ""

    def call(self, tool: Tool, request: Request) -> Json:
        self.order = request.order
        return super().call(tool, request)

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question != BROWSE or not self.order:
            return asked
        return asked | {"params": question.params | {"url": "http://example.com/orders/connect"}}
