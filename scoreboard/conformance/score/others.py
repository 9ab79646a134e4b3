"""Servers and clients that break a sentence in another way than its mutant does.

The scenarios were written for the mutants, so the mutants cannot show what else the scenarios would
find. These programs can. Thirty rows of `requirements.toml` with a server were drawn
(`random.Random(31)`, `(32)` and `(33)`, ten each), and seven rows with a client; each row got a
second way to break it. The first and the second ten servers were measured, and the scenarios were
then improved for them. The third ten were measured after that, and nothing was improved for them.
The clients were known when the scenario for clients was written. Knows the correct server and
client.
"""

from __future__ import annotations

import base64
import json
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator
from typing import Any, ClassVar

import anyio

from scoreboard.conformance.score.client import Client
from scoreboard.conformance.score.correct import (
    BROWSE,
    STRING,
    Fixture,
    Json,
    Question,
    Refused,
    Request,
    Tool,
    digest,
    schema_of,
)
from scoreboard.conformance.score.mutants import entered

FIRST_DRAW: dict[str, type[Fixture]] = {}
"""The servers that were measured first; the scenarios were then improved."""

SECOND_DRAW: dict[str, type[Fixture]] = {}
"""The servers that were measured next; the scenarios were then improved again."""

THIRD_DRAW: dict[str, type[Fixture]] = {}
"""The servers that were measured last; the scenarios have not changed since."""

first = entered(FIRST_DRAW)
second = entered(SECOND_DRAW)
third = entered(THIRD_DRAW)


# --- measured first -------------------------------------------------------------------------------


@first
class AsksForRootsOnAStream(Fixture):
    """It asks for the client's roots on the response stream of a call that takes long."""

    async def slow(self, request: Request) -> AsyncGenerator[str]:
        yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': 'roots', 'method': 'roots/list'})}\n\n"
        async for frame in super().slow(request):
            yield frame


@first
class OneKeyForTwoForms(Fixture):
    """Two forms of one response have the same key."""

    def encoded(self, message: Json) -> str:
        text = super().encoded(message)
        return text.replace('"confirm": {', '"user_name": {') if '"user_name": {' in text else text


@first
class LaterStatesForEver(Fixture):
    """The state of the first round expires, and those of later rounds do not."""

    def sealed(self, request: Request, asked: list[str], answers: Json, ttl: float) -> str:
        return super().sealed(request, asked, answers, 10**9 if answers else ttl)


@first
class StateOfAFamilyOfTools(Fixture):
    """A state is bound to the last word of a tool's name, which tools of one kind share."""

    def salient(self, request: Request) -> str:
        return digest([request.method, request.name.rpartition("_")[2], request.arguments])


@first
class ArgumentsInAnyCase(Fixture):
    """The arguments that a state is bound to are compared in lower case."""

    def salient(self, request: Request) -> str:
        return digest([request.method, request.name, json.dumps(request.arguments).lower()])


class _Url(Fixture):
    """Sends another URL than the correct one."""

    url: str

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        return (
            asked | {"params": question.params | {"url": self.url}} if question == BROWSE else asked
        )


@first
class UrlWithASpace(_Url):
    """The path of a URL has a space in it."""

    url = "https://example.com/sign in"


@first
class UrlWithAToken(_Url):
    """The path of a URL ends in a signed token, which signs in whoever has it."""

    url = "https://example.com/connect/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.3q2-7wAAAAAAAAAAAAAAAA"


class _Listed(Fixture):
    """Lists one tool more."""

    more: ClassVar[Json]

    def tools(self) -> list[Json]:
        return [*super().tools(), self.tool("test_another") | self.more]


@first
class NameWithAComma(_Listed):
    """A tool's name has a comma."""

    more: ClassVar[Json] = {"name": "test,another"}


@first
class SameHeaderFurtherDown(_Listed):
    """A parameter and a property of another parameter have the same header."""

    more: ClassVar[Json] = {
        "inputSchema": {
            "type": "object",
            "properties": {
                "region": STRING | {"x-mcp-header": "Region"},
                "to": {
                    "type": "object",
                    "properties": {"region": STRING | {"x-mcp-header": "REGION"}},
                },
            },
        }
    }


@first
class NoCountForNone(Fixture):
    """A structured result leaves out what its schema requires where that is nought."""

    def structured(self, count: int) -> Json:
        result = super().structured(count)
        return result if count else result | {"structuredContent": {}}


# --- measured next --------------------------------------------------------------------------------


@second
class ALaterQuestionWithoutAMethod(Fixture):
    """The question of a second round has parameters and no method."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        return {"params": asked["params"]} if question.key == "step2" else asked


@second
class AnswersOutsideTheSignature(Fixture):
    """The signature covers the state without the answers in it."""

    def mac(self, payload: str) -> str:
        try:
            state = json.loads(base64.b64decode(payload, altchars="-_", validate=True))
        except ValueError:
            return super().mac(payload)
        return super().mac(json.dumps({**state, "answers": None}))


@second
class NoCredentialsIsTheLastCaller(Fixture):
    """A request without credentials has the principal of the request before it."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def user(self, request: Request) -> str:
        self.last = request.principal or self.last
        return self.last


@second
class EmptySecondRound(Fixture):
    """The second round of a call asks for input and has neither questions nor a state."""

    def input_required(self, requests: dict[str, Json], state: str) -> Json:
        result = super().input_required(requests, state)
        return {"resultType": "input_required"} if "step2" in requests else result


@second
class NoActionIsAccept(Fixture):
    """A response without an action counts as accepted."""

    def fits(self, question: Question, response: Json) -> bool:
        return super().fits(question, {"action": "accept"} | response)


@second
class AssumesWhatIsMissing(Fixture):
    """Where one of several questions is answered, the others are taken for answered."""

    def known(self, tool: Tool, responses: Json) -> Json:
        known = super().known(tool, responses)
        values: dict[str, Any] = {"string": "", "boolean": True}
        for questions in tool.rounds:
            if any(each.key in known for each in questions):
                for each in questions:
                    if each.method == "elicitation/create" and each.key not in known:
                        wanted = each.params["requestedSchema"]["properties"]
                        filled = {name: values[of["type"]] for name, of in wanted.items()}
                        known[each.key] = {"action": "accept", "content": filled}
        return known


@second
class AsksForAKeyByTitle(Fixture):
    """A field with a harmless name has the title of a secret."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question.key != "user_name":
            return asked
        schema = {"type": "object", "properties": {"name": STRING | {"title": "Your API key"}}}
        return asked | {"params": question.params | {"requestedSchema": schema}}


@second
class UrlWithoutAMode(Fixture):
    """A question in URL mode does not say its mode."""

    def asked(self, question: Question) -> Json:
        asked = super().asked(question)
        if question != BROWSE:
            return asked
        return asked | {"params": {key: of for key, of in question.params.items() if key != "mode"}}


@second
class AnswersByOrder(Fixture):
    """Answers are kept on the server by order, so that whoever names it has them."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[str, Json] = {}
        self.order = ""

    def call(self, tool: Tool, request: Request) -> Json:
        self.order = request.order
        return super().call(tool, request)

    def known(self, tool: Tool, responses: Json) -> Json:
        kept = self.kept.setdefault(f"{tool.name} {self.order}", {}) if self.order else {}
        kept.update(super().known(tool, responses))
        return kept


@second
class CalledToolsFirst(Fixture):
    """Tools are listed by how often they have been called."""

    def __init__(self) -> None:
        super().__init__()
        self.called: Counter[str] = Counter()

    def call_tool(self, request: Request) -> Json:
        self.called[request.name] += 1
        return super().call_tool(request)

    def tools(self) -> list[Json]:
        return sorted(super().tools(), key=lambda tool: -self.called[tool["name"]])


# --- measured last --------------------------------------------------------------------------------


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


OTHERS = FIRST_DRAW | SECOND_DRAW | THIRD_DRAW


# --- clients --------------------------------------------------------------------------------------

OTHER_CLIENTS: dict[str, type[Client]] = {}
another = entered(OTHER_CLIENTS)


@another
class RetriesWithoutMeta(Client):
    """Its retries have no `_meta`."""

    def send(self, method: str, params: Json, retried: Json | None = None) -> tuple[Json, Json]:
        self.retrying = retried is not None
        return super().send(method, params, retried)

    def meta(self) -> Json:
        return {} if self.retrying else super().meta()


@another
class AnswersTheFirstQuestion(Client):
    """Of several questions it answers the first one."""

    def retry(self, params: Json, result: Json) -> Json:
        again = super().retry(params, result)
        if "inputResponses" in again:
            again["inputResponses"] = dict(list(again["inputResponses"].items())[:1])
        return again


@another
class EchoesTheFirstState(Client):
    """Each retry of a call has the state of its first round."""

    def retry(self, params: Json, result: Json) -> Json:
        again = super().retry(params, result)
        return (
            again | {"requestState": params["requestState"]} if "requestState" in params else again
        )


@another
class DeclaresWhereItLists(Client):
    """It declares elicitation where it lists tools, and not where it calls them."""

    def send(self, method: str, params: Json, retried: Json | None = None) -> tuple[Json, Json]:
        self.calling = method == "tools/call"
        return super().send(method, params, retried)

    def capabilities(self) -> Json:
        return {} if self.calling else super().capabilities()


@another
class AnswersWithAnError(Client):
    """Its answer to every question is a JSON-RPC error: it declares what it has no handler for."""

    def answer(self, request: Json) -> Json:
        return {"error": {"code": -32601, "message": "Method not found"}}


@another
class LooksAtTheUrl(Client):
    """It asks for the headers of a URL before it asks for consent, for a preview."""

    def answer(self, request: Json) -> Json:
        params: Json = request.get("params") or {}
        if "url" in params:
            urllib.request.urlopen(
                urllib.request.Request(params["url"], method="HEAD"), timeout=5
            ).close()
        return super().answer(request)


@another
class ReissuesUnderTwoIds(Client):
    """A request that is lost twice is sent a third time under its second id."""

    def reissued(self, message: Json) -> Json | None:
        if message.get("method") != "tools/call":
            return super().reissued(message)
        if message["id"] == self.second_id:
            return message
        again = message | {"id": self.new_id(None)}
        self.second_id = again["id"]
        return again

    second_id = 0
