"""A correct client for the suite's client scenarios, and the mutants that are made from it.

`python -m scoreboard.conformance.score.client NAME URL` lists the tools of the server at URL and
calls each, as `correct` or as a mutant. Its user accepts every form and opens no URL. It speaks
HTTP without an SDK, so that a mutant can break what an SDK would repair. Knows the specification
only.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

VERSION = "2026-07-28"
META = "io.modelcontextprotocol/"
BESIDE = "test_mrtr_unrelated"
"""The suite's tool that is called between the rounds of another call."""
_VALUES: Json = {"string": "text", "boolean": True, "number": 2, "integer": 2}


class Client:
    """The client. A mutant is a subclass that overrides one method."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.numbers = itertools.count(1)
        self.tools: dict[str, Json] = {}

    # --- requests ---------------------------------------------------------------------------------

    def new_id(self, retried: Json | None) -> int:
        """The id of a request; `retried` is the request that it follows."""
        return next(self.numbers)

    def capabilities(self) -> Json:
        return {"elicitation": {"form": {}, "url": {}}}

    def meta(self) -> Json:
        info = {"name": "correct", "version": "1"}
        meta = {
            "protocolVersion": VERSION,
            "clientInfo": info,
            "clientCapabilities": self.capabilities(),
        }
        return {META + name: value for name, value in meta.items()}

    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": VERSION,
            "Mcp-Method": method,
        }
        if method != "tools/call":
            return headers
        headers["Mcp-Name"] = encoded(params["name"])
        for name, header in marked(self.tools.get(params["name"], {})):
            value = params["arguments"].get(name)
            if value is not None:
                plain = str(value).lower() if isinstance(value, bool) else str(value)
                headers[f"Mcp-Param-{header}"] = encoded(plain)
        return headers

    def reissued(self, message: Json) -> Json | None:
        """What is sent when the response was lost; None if nothing is."""
        return message | {"id": self.new_id(None)}

    def send(self, method: str, params: Json, retried: Json | None = None) -> tuple[Json, Json]:
        """One request, and the response to it; a lost response is asked for again, twice."""
        message: Json | None = {
            "jsonrpc": "2.0",
            "id": self.new_id(retried),
            "method": method,
            "params": params | {"_meta": self.meta()},
        }
        for _ in range(3):
            assert message is not None
            request = urllib.request.Request(
                self.url, json.dumps(message).encode(), self.headers(method, params)
            )
            try:
                with urllib.request.urlopen(request, timeout=5) as response:
                    return message, read(response.read().decode(), message["id"])
            except urllib.error.HTTPError as refused:
                answer = json.loads(refused.read() or b"{}")
                if answer.get("error", {}).get("code") != -32022:
                    return message, answer
            except (OSError, http.client.HTTPException, ValueError):
                message = self.reissued(message)
                if message is None:
                    break
        return {}, {}

    # --- calls ------------------------------------------------------------------------------------

    def usable(self, tool: Json) -> bool:
        """Whether a tool's headers are as the specification wants them."""
        headers = [header for _, header in marked(tool)]
        kinds = ("string", "integer", "boolean")
        properties = tool["inputSchema"].get("properties", {})
        return (
            all(re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", header) for header in headers)
            and len({header.lower() for header in headers}) == len(headers)
            and all(properties[name].get("type") in kinds for name, _ in marked(tool))
        )

    def answer(self, request: Json) -> Json:
        """What the user says to a question."""
        params: Json = request.get("params") or {}
        if self.mode(params) == "url":
            return {"action": "decline"}
        properties: Json = params["requestedSchema"].get("properties", {})
        return {
            "action": "accept",
            "content": {name: self.value(of) for name, of in properties.items()},
        }

    def mode(self, params: Json) -> str:
        return params.get("mode", "form")

    def value(self, schema: Json) -> Any:
        return schema.get("default", schema.get("enum", [_VALUES.get(schema.get("type", ""))])[0])

    def retry(self, params: Json, result: Json) -> Json:
        """The parameters of the next round."""
        requests: Json = result.get("inputRequests") or {}
        again = {name: params[name] for name in ("name", "arguments")}
        if requests:
            again["inputResponses"] = {key: self.answer(each) for key, each in requests.items()}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        return again

    def beside(self, retry: Json) -> Json:
        """The parameters of a call that is made while another one waits for its retry."""
        return {"name": BESIDE, "arguments": {}}

    def call(self, tool: Json) -> None:
        """Call a tool to its end, and no longer than five rounds."""
        schema: Json = tool["inputSchema"]
        properties: Json = schema.get("properties", {})
        arguments = {
            name: self.value(properties.get(name, {})) for name in schema.get("required", [])
        }
        params: Json = {"name": tool["name"], "arguments": arguments}
        sent: Json | None = None
        for _ in range(5):
            sent, answer = self.send("tools/call", params, sent)
            result: Json = answer.get("result") or {}
            if result.get("resultType", "complete") != "input_required":
                return
            params = self.retry(params, result)
            if BESIDE in self.tools:
                self.send("tools/call", self.beside(params))

    def run(self) -> None:
        """List the tools, and call each."""
        _, answer = self.send("tools/list", {})
        listed: list[Json] = answer.get("result", {}).get("tools", [])
        self.tools = {tool["name"]: tool for tool in listed if self.usable(tool)}
        for tool in self.tools.values():
            self.call(tool)


def marked(tool: Json) -> Iterator[tuple[str, str]]:
    """Yield a tool's parameters that are mirrored into headers, with the header of each."""
    properties: Json = tool.get("inputSchema", {}).get("properties", {})
    for name, schema in properties.items():
        if "x-mcp-header" in schema:
            yield name, schema["x-mcp-header"]


def encoded(value: str) -> str:
    """Return a value in the encoding of a header."""
    if re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", value) and not value.startswith(
        "=?base64?"
    ):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def read(text: str, number: int) -> Json:
    """Return the response in a body of JSON, or of server-sent events."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    messages: list[Json] = [json.loads(line) for line in lines or [text]]
    return next(message for message in messages if message.get("id") == number)


CLIENTS: dict[str, type[Client]] = {"correct": Client}
"""The correct client and its mutants, by their names in `requirements.toml`."""


def mutant(of: type[Client]) -> type[Client]:
    """Enter a class into `CLIENTS`: `GivesUp` as `gives-up`."""
    CLIENTS[re.sub(r"(?<!^)([A-Z])", r"-\1", of.__name__).lower()] = of
    return of


@mutant
class OmitsMeta(Client):
    """Its requests have no `_meta`."""

    def meta(self) -> Json:
        return {}


@mutant
class RetriesWithoutAnswers(Client):
    """It retries at once, without an answer."""

    def retry(self, params: Json, result: Json) -> Json:
        again = super().retry(params, result)
        again.pop("inputResponses", None)
        return again


@mutant
class ChangesTheState(Client):
    """It reads the state as JSON and writes it again."""

    def retry(self, params: Json, result: Json) -> Json:
        again = super().retry(params, result)
        if "requestState" in again:
            again["requestState"] = json.dumps(json.loads(again["requestState"]), indent=1)
        return again


@mutant
class SendsAStateOfItsOwn(Client):
    """It sends a state where the server gave none."""

    def retry(self, params: Json, result: Json) -> Json:
        return {"requestState": "none"} | super().retry(params, result)


@mutant
class ReusesTheId(Client):
    """A retry has the id of the request that it follows."""

    def new_id(self, retried: Json | None) -> int:
        return retried["id"] if retried else super().new_id(retried)


@mutant
class LeaksIntoOtherRequests(Client):
    """A call beside another one has the other one's answers and state."""

    def beside(self, retry: Json) -> Json:
        return retry | super().beside(retry)


@mutant
class DeclaresNothing(Client):
    """It can ask its user, and does not declare it."""

    def capabilities(self) -> Json:
        return {}


@mutant
class AnswersInNoMode(Client):
    """It declares elicitation and has no mode of it."""

    def answer(self, request: Json) -> Json:
        return {"action": "cancel"}


@mutant
class NeedsAMode(Client):
    """A question without a mode is cancelled."""

    def answer(self, request: Json) -> Json:
        has_mode = "mode" in (request.get("params") or {})
        return super().answer(request) if has_mode else {"action": "cancel"}


@mutant
class PrefetchesTheUrl(Client):
    """It fetches the URL of a question before it asks for consent."""

    def answer(self, request: Json) -> Json:
        params: Json = request.get("params") or {}
        if "url" in params:
            urllib.request.urlopen(params["url"], timeout=5).close()
        return super().answer(request)


@mutant
class AnswersOffSchema(Client):
    """Its answers do not fit the form."""

    def value(self, schema: Json) -> Any:
        return [super().value(schema)]


@mutant
class TakesAnyHeader(Client):
    """It calls tools whose headers break the rules."""

    def usable(self, tool: Json) -> bool:
        return True

    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        return {
            name: value for name, value in headers.items() if re.fullmatch(r"[\w-]+", name, re.A)
        }


@mutant
class GivesUp(Client):
    """It does not ask again for a response that was lost."""

    def reissued(self, message: Json) -> Json | None:
        return None


@mutant
class ReissuesTheSameId(Client):
    """It asks again for a response that was lost under the same id."""

    def reissued(self, message: Json) -> Json | None:
        return message


def main() -> None:
    """Run a client against a server."""
    CLIENTS[sys.argv[1]](sys.argv[2]).run()


if __name__ == "__main__":
    main()
