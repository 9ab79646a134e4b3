"""A server on standard input and output that passes each message on to a server's address.

The gateway starts its upstream as a program. This one adds nothing but the headers of HTTP.
"""

import json
import sys
from typing import Any

import httpx2

ACCEPTED = 202


def headers_of(message: dict[str, Any], session: str) -> dict[str, str]:
    """Return the headers that the specification wants for a message."""
    params: dict[str, Any] = message.get("params") or {}
    meta: dict[str, Any] = params.get("_meta") or {}
    version = meta.get("io.modelcontextprotocol/protocolVersion")
    headers = {"accept": "application/json, text/event-stream"}
    if version:
        headers |= {"mcp-protocol-version": version, "mcp-method": message["method"]}
        headers |= {"mcp-name": params["name"]} if "name" in params else {}
    elif session:
        headers |= {"mcp-session-id": session, "mcp-protocol-version": "2025-11-25"}
    return headers


def data_of(response: httpx2.Response) -> str:
    """Return the message in a response: a body of JSON, or one event of a stream."""
    if not response.headers.get("content-type", "").startswith("text/event-stream"):
        return response.text
    lines = response.text.splitlines()
    return next(line.removeprefix("data: ") for line in lines if line.startswith("data: {"))


def main(url: str) -> None:
    """Pass on every line of the standard input until it ends."""
    session = ""
    with httpx2.Client(trust_env=False, timeout=60) as http:
        for line in sys.stdin:
            message = json.loads(line)
            response = http.post(url, json=message, headers=headers_of(message, session))
            session = response.headers.get("mcp-session-id", session)
            if response.status_code != ACCEPTED:
                print(data_of(response), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
