"""Answers after which a standard lets a client send a request again, given after the work.

Each standard says so on the promise that the server did nothing. Two of the answers ask for another
token, so an authorization server is here, too. Knows HTTP and OAuth; nothing of any client.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import parse_qs

from mrtr_options.sdk.serving import PATH
from scoreboard.wire import JSON, MadeUp, Request

ISSUER = "/sign-in"
"""The path of the authorization server's name, at the origin of the server."""

SCOPE = "weather"
MORE = "weather billing"
"""The scope that a token has at first, and the scope that is then asked for."""

RESOURCE = "/.well-known/oauth-protected-resource"

HEADER_MISMATCH = -32020


def _origin(request: Request) -> str:
    return f"http://{request.headers['host']}"


def _says(status: int, *headers: tuple[str, str]) -> MadeUp:
    return MadeUp("text/plain", b"", status, headers)


def _shows(content: dict[str, Any], status: int = 200) -> MadeUp:
    return MadeUp(JSON, json.dumps(content).encode(), status)


def _asks_for_token(request: Request, status: int, challenge: str) -> MadeUp:
    where = f'resource_metadata="{_origin(request)}{RESOURCE}{PATH}"'
    return _says(status, ("www-authenticate", f"Bearer {challenge}, {where}"))


def _mismatch(request: Request) -> MadeUp:
    error = {"code": HEADER_MISMATCH, "message": "Header mismatch"}
    return _shows({"jsonrpc": "2.0", "id": request.message["id"], "error": error}, 400)


Refusal = Literal["307", "401", "403", "-32020", "421"]
"""The answers, by status or by code."""

REFUSALS: Mapping[str, tuple[Callable[[Request], MadeUp], str]] = {
    "307": (
        lambda request: _says(307, ("location", request.target)),
        "the server took the request, and then redirects to the same address (307)",
    ),
    "401": (
        lambda request: _asks_for_token(request, 401, f'error="invalid_token", scope="{SCOPE}"'),
        "the server took the request, and then no longer takes the token (401)",
    ),
    "403": (
        lambda request: _asks_for_token(
            request, 403, f'error="insufficient_scope", scope="{MORE}"'
        ),
        "the server took the request, and then wants a token for more (403, `insufficient_scope`)",
    ),
    "-32020": (
        _mismatch,
        "the server took the request, and then says `HeaderMismatch` (400, -32020)",
    ),
    "421": (
        lambda request: _says(421),
        "the server took the request, and then says that it is for another host (421)",
    ),
}
"""Each answer, and what a history says of it."""

NEED_TOKENS = ("401", "403")
"""The answers that need a client that can get a token."""


def sign_in(request: Request) -> MadeUp | None:
    """Answer as an authorization server, or ask for a token; None if the request has a token."""
    origin = _origin(request)
    target = request.target
    if target.startswith(RESOURCE):
        servers = [origin + ISSUER]
        return _shows({"resource": origin + PATH, "authorization_servers": servers})
    if target.startswith("/.well-known/"):
        return _shows(
            {
                "issuer": origin + ISSUER,
                "authorization_endpoint": f"{origin}/authorize",
                "token_endpoint": f"{origin}/token",
                "response_types_supported": ["code"],
                "grant_types_supported": ["client_credentials"],
                "token_endpoint_auth_methods_supported": ["client_secret_basic"],
                "scopes_supported": MORE.split(),
                "code_challenge_methods_supported": ["S256"],
            }
        )
    if target == "/token":
        (scope,) = parse_qs(request.body.decode()).get("scope", [SCOPE])
        token = {"access_token": secrets.token_hex(8), "token_type": "Bearer", "expires_in": 3600}
        return _shows(token | {"scope": scope})
    if "authorization" in request.headers:
        return None
    return _asks_for_token(request, 401, f'scope="{SCOPE}"')
