"""A correct server for the suite's fixtures, as one class whose methods mutants replace.

It speaks JSON over HTTP without an SDK, so that a mutant can break what an SDK would mend. Besides
the tools that the suite names, it has tools that count their effects, which the new scenarios call.
`python -m scoreboard.conformance.score.correct [MUTANT]` prints a URL and serves until it is ended.
Knows the pages of the specification and the suite's names; nothing of the package's options.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

Json = dict[str, Any]

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
INVALID_PARAMS = -32602
PREFIX = "test_input_required_result_"
PROMPT = PREFIX + "prompt"
STREAMING, SAMPLES = "test_streaming_elicitation", "test_missing_capability"


class Refused(Exception):
    """A JSON-RPC error.

    Args:
        message: What is wrong, for the client's developer.
        code: The error's code.
        status: The HTTP status.
        data: The error's data, if it has any.
    """

    def __init__(
        self, message: str, code: int = INVALID_PARAMS, status: int = 200, data: Json | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.error: Json = {"code": code, "message": message} | ({"data": data} if data else {})


@dataclass(frozen=True)
class Question:
    """One input request: its key, method and parameters."""

    key: str
    method: str
    params: Json


def form(key: str, message: str, **properties: Json) -> Question:
    """A form whose properties are all required."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    params = {"mode": "form", "message": message, "requestedSchema": schema}
    return Question(key, "elicitation/create", params)


def sample(key: str, text: str) -> Question:
    """A question for the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return Question(key, "sampling/createMessage", {"messages": [message], "maxTokens": 100})


STRING, BOOLEAN = {"type": "string"}, {"type": "boolean"}
NAME = form("user_name", "What is your name?", name=STRING)
CONFIRM = form("confirm", "Please confirm", ok=BOOLEAN)
GREETING = sample("greeting", "Generate a greeting")
ROOTS = Question("client_roots", "roots/list", {})
BROWSE = Question(
    "browse",
    "elicitation/create",
    {"mode": "url", "message": "Sign in, please.", "url": "https://example.com/connect"},
)


@dataclass(frozen=True)
class Tool:
    """A tool, or the prompt, that asks.

    Attributes:
        name: Its name, after `PREFIX` where it is none of the suite's diagnostic tools.
        rounds: Its questions, round by round.
        needs_state: Whether an answer without the state is no answer.
        effect: Whether it has an effect after the last answer, once for each state.
        optional: Whether a question that the client cannot be asked is left out.
        ttl: For how many seconds its state is good.
    """

    name: str
    rounds: tuple[tuple[Question, ...], ...]
    needs_state: bool = False
    effect: bool = False
    optional: bool = False
    ttl: float = 600


TOOLS = {
    (tool.name if tool.name in (STREAMING, SAMPLES) else PREFIX + tool.name): tool
    for tool in (
        Tool("elicitation", ((NAME,),)),
        Tool("sampling", ((sample("capital_question", "What is the capital of France?"),),)),
        Tool("list_roots", ((ROOTS,),)),
        Tool("request_state", ((CONFIRM,),), needs_state=True),
        Tool("multiple_inputs", ((NAME, GREETING, ROOTS),)),
        Tool(
            "multi_round",
            (
                (form("step1", "Step 1: What is your name?", name=STRING),),
                (form("step2", "Step 2: Which color?", color=STRING),),
            ),
        ),
        Tool("tampered_state", ((CONFIRM,),), needs_state=True),
        Tool("capabilities", ((NAME, GREETING),), optional=True),
        Tool("prompt", ((form("user_context", "Which context?", context=STRING),),)),
        Tool("effect", ((CONFIRM,),), needs_state=True, effect=True),
        Tool("other_effect", ((CONFIRM,),), needs_state=True, effect=True),
        Tool("two_rounds", ((NAME,), (CONFIRM,)), needs_state=True, effect=True),
        Tool("expiring", ((NAME,), (CONFIRM,)), needs_state=True, effect=True, ttl=1),
        Tool("two_questions", ((NAME, CONFIRM),), needs_state=True),
        Tool("url", ((BROWSE,),), needs_state=True),
        Tool(STREAMING, ((NAME,),)),
        Tool(SAMPLES, ((GREETING,),)),
    )
}
"""The tools that ask, and the prompt, by name."""
STATE_ONLY, SLOW, EFFECTS = PREFIX + "state_only", PREFIX + "slow", PREFIX + "effects"
HEADER = "test_custom_header"


def schema_of(**properties: Json) -> Json:
    """The schema of arguments, none of which is required."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


ORDER = schema_of(order=STRING)
EMBEDDED = {
    "uri": "test://embedded-resource",
    "mimeType": "text/plain",
    "text": "An embedded text.",
}
OUTPUT = {"type": "object", "properties": {"effects": {"type": "integer"}}, "required": ["effects"]}


@dataclass(frozen=True)
class Request:
    """One JSON-RPC request, and who sent it.

    Attributes:
        message: The request.
        headers: The HTTP headers, by lower-case name.
    """

    message: Json
    headers: dict[str, str]

    @property
    def method(self) -> str:
        return self.message["method"]

    @property
    def params(self) -> Json:
        return self.message.get("params") or {}

    @property
    def name(self) -> str:
        return self.params.get("name") or ""

    @property
    def arguments(self) -> Json:
        return self.params.get("arguments") or {}

    @property
    def order(self) -> str:
        return self.arguments.get("order") or ""

    @property
    def capabilities(self) -> Json:
        return self.params["_meta"][META + "clientCapabilities"]

    @property
    def principal(self) -> str:
        """Who sends it: the bearer of the token. A real server has the token verified."""
        return self.headers.get("authorization", "")


def content(text: str, **more: Any) -> Json:
    """A complete tool result of one text."""
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], **more}


def plain(header: str) -> str:
    """The value of a header, which may be in base64."""
    found = re.fullmatch(r"=\?base64\?(.*)\?=", header.strip())
    try:
        return base64.b64decode(found[1], validate=True).decode() if found else header.strip()
    except ValueError:
        raise Refused("A header is no base64", -32020, 400) from None


def digest(value: Any) -> str:
    """The same for the same JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


@dataclass
class Fixture:
    """The server. A mutant is a subclass that overrides one method."""

    effects: Counter[str] = field(default_factory=Counter[str])
    done: dict[str, Json] = field(default_factory=dict[str, Json])
    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    # --- the state --------------------------------------------------------------------------------

    def mac(self, payload: str) -> str:
        """What shows that a payload is the server's own."""
        return hmac.new(self.key, payload.encode(), hashlib.sha256).hexdigest()

    def verified(self, payload: str, mac: str) -> bool:
        return hmac.compare_digest(mac, self.mac(payload))

    def user(self, request: Request) -> str:
        """Whom a state belongs to."""
        return request.principal

    def salient(self, request: Request) -> str:
        """What makes a request the one that a state belongs to."""
        return digest([request.method, request.name, request.arguments])

    def expired(self, until: float) -> bool:
        return time.time() > until

    def sealed(self, request: Request, asked: list[str], answers: Json, ttl: float) -> str:
        state = {
            "asked": asked,
            "answers": answers,
            "user": self.user(request),
            "request": self.salient(request),
            "until": time.time() + ttl,
            "nonce": secrets.token_hex(8),
        }
        payload = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
        return f"{payload}.{self.mac(payload)}"

    def opened(self, request: Request) -> Json:
        """The state that a request brings; empty without one."""
        token = request.params.get("requestState")
        if token is None:
            return {}
        payload, _, mac = token.partition(".")
        if not self.verified(payload, mac):
            raise Refused("Invalid requestState")
        try:
            state = json.loads(base64.b64decode(payload, altchars="-_", validate=True))
        except ValueError:
            raise Refused("Invalid requestState") from None
        of = (self.user(request), self.salient(request))
        if (state["user"], state["request"]) != of or self.expired(state["until"]):
            raise Refused("Invalid requestState")
        return state

    # --- questions and answers --------------------------------------------------------------------

    def can_ask(self, request: Request, question: Question) -> bool:
        declared = request.capabilities
        if question.method != "elicitation/create":
            return question.method.partition("/")[0] in declared
        modes = declared.get("elicitation")
        return modes is not None and (question.params["mode"] in (modes or {"form": {}}))

    def asked(self, question: Question) -> Json:
        """A question as it is sent."""
        return {"method": question.method, "params": question.params}

    def input_required(self, requests: dict[str, Json], state: str) -> Json:
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}

    def responses(self, request: Request) -> Json:
        """The answers that a request brings."""
        responses = request.params.get("inputResponses", {})
        if not isinstance(responses, dict):
            raise Refused("inputResponses is an object")
        return cast(Json, responses)

    def known(self, tool: Tool, responses: Json) -> Json:
        """The answers to the tool's own questions."""
        keys = {question.key for questions in tool.rounds for question in questions}
        return {key: response for key, response in responses.items() if key in keys}

    def well_formed(self, response: Any) -> bool:
        return isinstance(response, dict)

    def fits(self, question: Question, response: Json) -> bool:
        """Whether an answer is of the form that was asked for."""
        if question.method == "sampling/createMessage":
            return "content" in response
        if question.method == "roots/list":
            return "roots" in response
        if response.get("action") != "accept" or question.params["mode"] == "url":
            return response.get("action") in ("accept", "decline", "cancel")
        kinds = {"string": str, "boolean": bool}
        data: Json = response.get("content") or {}
        wanted = question.params["requestedSchema"]["properties"]
        return all(isinstance(data.get(name), kinds[of["type"]]) for name, of in wanted.items())

    def refusal(self, response: Json) -> Json | None:
        """The result where the user declines or cancels."""
        action = response.get("action", "accept")
        return None if action == "accept" else content(f"The user chose to {action}.")

    def refused(self, result: Json, request: Request) -> Json:
        """The result of a refusal where the tool's schema wants the count."""
        counted = self.structured(self.effects[request.order])
        return counted | {"content": [*result["content"], *counted["content"]]}

    def missing(self, questions: list[Question]) -> None:
        """Called where a client that answers leaves questions out, which are asked again."""

    def complete(self, tool: Tool, answers: Json, request: Request) -> Json:
        said = "state-ok " + json.dumps(answers, sort_keys=True)
        if request.method == "prompts/get":
            message = {"role": "user", "content": {"type": "text", "text": said}}
            return {"resultType": "complete", "messages": [message]}
        if not tool.effect:
            return content(said)
        self.effects[request.order] += 1
        return self.structured(self.effects[request.order])

    def structured(self, count: int) -> Json:
        result = {"effects": count}
        return content(json.dumps(result), structuredContent=result)

    def recorded(self, state: Json) -> Json | None:
        """The result that this state had before."""
        return self.done.get(state.get("nonce", ""))

    def begun(self, tool: Tool, request: Request) -> None:
        """Called by the first request of a call."""

    def call(self, tool: Tool, request: Request) -> Json:
        """One round of a tool or prompt that asks."""
        state = self.opened(request)
        if (before := self.recorded(state)) is not None:
            return before
        responses = self.known(tool, self.responses(request))
        if tool.needs_state and not state:
            responses = {}
        if not state and not responses:
            self.begun(tool, request)
        answers: Json = dict(state.get("answers", {}))
        for questions in tool.rounds:
            missing: list[Question] = []
            for question in questions:
                if question.key in answers:
                    continue
                response = responses.get(question.key)
                if (
                    response is None
                    or not self.well_formed(response)
                    or not self.fits(question, response)
                ):
                    missing.append(question)
                elif (result := self.refusal(response)) is not None:
                    return self.refused(result, request) if tool.effect else result
                else:
                    answers[question.key] = response
            able = [each for each in missing if self.can_ask(request, each)]
            if len(able) < len(missing) and not tool.optional:
                lacking = {each.method.partition("/")[0]: cast(Json, {}) for each in missing}
                data = {"requiredCapabilities": lacking}
                raise Refused("The client cannot be asked.", -32021, 400, data)
            if able:
                requests = {each.key: self.asked(each) for each in able}
                if "inputResponses" in request.params and set(requests) & set(
                    state.get("asked", requests)
                ):
                    self.missing(able)
                return self.input_required(
                    requests, self.sealed(request, list(requests), answers, tool.ttl)
                )
        result = self.complete(tool, answers, request)
        if state:
            self.done[state["nonce"]] = result
        return result

    def state_only(self, request: Request) -> Json:
        """A tool that asks nothing: the client retries with the state alone."""
        if self.opened(request):
            return content("state-ok")
        return {"resultType": "input_required", "requestState": self.sealed(request, [], {}, 600)}

    # --- methods ----------------------------------------------------------------------------------

    def capabilities(self) -> Json:
        return {"tools": {}, "prompts": {}, "resources": {}}

    def tools(self) -> list[Json]:
        names = [name for name in TOOLS if name != PROMPT]
        names += [STATE_ONLY, SLOW, EFFECTS, "test_simple_text", "test_error_handling"]
        names += ["test_embedded_resource", "test_logging_tool", HEADER]
        return [self.tool(name) for name in names]

    def tool(self, name: str) -> Json:
        listed: Json = {"name": name, "description": f"Fixture {name}.", "inputSchema": ORDER}
        if name == EFFECTS or (name in TOOLS and TOOLS[name].effect):
            listed["outputSchema"] = OUTPUT
        if name == HEADER:
            listed["inputSchema"] = schema_of(region=STRING | {"x-mcp-header": "Region"})
        return listed

    def check_arguments(self, request: Request) -> None:
        allowed = {"region"} if request.name == HEADER else {"order"}
        strings = all(isinstance(value, str) for value in request.arguments.values())
        if not request.arguments.keys() <= allowed or not strings:
            raise Refused("Invalid arguments")

    def named(self, name: str) -> str:
        """The name of the tool that is meant."""
        return name

    def call_tool(self, request: Request) -> Json:
        name = self.named(request.name)
        self.check_arguments(request)
        if name in TOOLS and name != PROMPT:
            return self.call(TOOLS[name], request)
        match name:
            case _ if name == STATE_ONLY:
                return self.state_only(request)
            case _ if name == EFFECTS:
                return self.structured(self.effects[request.order])
            case "test_simple_text" | "test_logging_tool" | "test_custom_header":
                return content("This is a simple text response for testing.")
            case "test_error_handling":
                return content("This tool intentionally returns an error for testing", isError=True)
            case "test_embedded_resource":
                resource = {"type": "resource", "resource": EMBEDDED}
                return {"resultType": "complete", "content": [resource]}
            case _:
                raise Refused(f"Unknown tool: {name!r}")

    def list_tools(self, request: Request) -> Json:
        return {"tools": self.tools()}

    def respond(self, request: Request) -> Json:
        """The result of a request.

        Raises:
            Refused: It gets an error.
        """
        cache = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}
        match request.method:
            case "server/discover":
                info = {META + "serverInfo": {"name": "fixture", "version": "1"}}
                about: Json = {"supportedVersions": [VERSION], "capabilities": self.capabilities()}
                return cache | about | {"_meta": info}
            case "tools/list":
                return cache | self.list_tools(request)
            case "prompts/list":
                return cache | {"prompts": [{"name": PROMPT}]}
            case "resources/list":
                return cache | {"resources": [{"uri": EMBEDDED["uri"], "name": "embedded"}]}
            case "resources/templates/list":
                return cache | {"resourceTemplates": []}
            case "resources/read" if request.params.get("uri") == EMBEDDED["uri"]:
                return cache | {"contents": [EMBEDDED]}
            case "resources/read":
                raise Refused("Resource not found", data={"uri": request.params.get("uri")})
            case "tools/call":
                return self.call_tool(request)
            case "prompts/get" if request.name == PROMPT:
                return self.call(TOOLS[PROMPT], request)
            case "prompts/get":
                raise Refused("Unknown prompt")
            case method:
                raise Refused(f"Method not found: {method}", -32601, 404)

    # --- HTTP -------------------------------------------------------------------------------------

    def check(self, request: Request) -> None:
        """The request's metadata, in body and headers."""
        meta = cast(Json, request.params.get("_meta") or {})
        for name in ("protocolVersion", "clientCapabilities"):
            if META + name not in meta:
                raise Refused(f"_meta lacks {META}{name}", status=400)
        version, sent = meta[META + "protocolVersion"], request.headers
        named = {"mcp-protocol-version": version, "mcp-method": request.method}
        if request.method in ("tools/call", "prompts/get"):
            named["mcp-name"] = request.name
        if request.method == "resources/read":
            named["mcp-name"] = request.params.get("uri")
        if request.name == HEADER and "region" in request.arguments:
            named["mcp-param-region"] = request.arguments["region"]
        for name, value in named.items():
            if plain(sent.get(name, "")) != value:
                raise Refused(f"{name} is not what the body says", -32020, 400)
        if version != VERSION:
            data = {"supported": [VERSION], "requested": version}
            raise Refused("Unsupported protocol version", -32022, 400, data)

    def parsed(self, body: bytes) -> Json:
        try:
            message = json.loads(body)
        except ValueError:
            raise Refused("Parse error", -32700, 400) from None
        if not isinstance(message, dict) or "method" not in message:
            raise Refused("Invalid Request", -32600, 400)
        return cast(Json, message)

    def encoded(self, message: Json) -> str:
        return json.dumps(message)

    async def handle(self, http: HttpRequest) -> Response:
        """One POST."""
        id: Any = None
        message: Json = {}
        host = http.headers.get("host", "")
        origin = http.headers.get("origin", "http://localhost")
        local = re.compile(r"(https?://)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?")
        if not local.fullmatch(host) or not local.fullmatch(origin):
            return Response(status_code=403)
        try:
            message = self.parsed(await http.body())
            id = message.get("id")
            request = Request(message, dict(http.headers))
            self.check(request)
            if request.name == SLOW and request.method == "tools/call":
                return StreamingResponse(self.slow(request), media_type="text/event-stream")
            answer, status = {"jsonrpc": "2.0", "id": id, "result": self.respond(request)}, 200
        except Refused as refused:
            answer, status = {"jsonrpc": "2.0", "id": id, "error": refused.error}, refused.status
        if message.get("params", {}).get("name") == STREAMING and status == 200:
            frames = [*self.before_response(), answer]
            text = "".join(f"data: {self.encoded(each)}\n\n" for each in frames)
            return Response(text, media_type="text/event-stream")
        return Response(self.encoded(answer), status, media_type="application/json")

    def before_response(self) -> list[Json]:
        """What is sent on a response stream before the response."""
        return []

    async def slow(self, request: Request) -> AsyncGenerator[str]:
        """An effect after a second, unless the client closes the stream."""
        yield ": working\n\n"
        with anyio.CancelScope(shield=self.works_on()):
            await anyio.sleep(1)
            self.effects[request.order] += 1
        result = self.structured(self.effects[request.order])
        answer = {"jsonrpc": "2.0", "id": request.message["id"], "result": result}
        yield f"data: {self.encoded(answer)}\n\n"

    def works_on(self) -> bool:
        """Whether work goes on when the client has closed the stream."""
        return False

    def app(self) -> Starlette:
        """The fixture as an ASGI application."""
        return Starlette(routes=[Route("/mcp", self.handle, methods=["POST"])])


def main() -> None:
    """Serve the fixture, or a mutant of it."""
    import uvicorn

    from mrtr_options.sdk.serving import listen
    from scoreboard.conformance.score.mutants import MUTANTS
    from scoreboard.conformance.score.others import OTHERS

    fixture = (MUTANTS | OTHERS)[sys.argv[1]]() if sys.argv[1:] else Fixture()
    listener = listen(0)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(fixture.app(), log_level="critical")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
