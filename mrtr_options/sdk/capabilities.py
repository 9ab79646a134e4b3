"""The kinds of question that a client can be asked, by its era and its declared capabilities.

Knows the SDK's types and `handler`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp_types.version import LATEST_MODERN_VERSION, is_version_at_least

from mrtr_options.sdk.handler import Context


def is_modern(ctx: Context) -> bool:
    """Return whether this request is of the modern era (2026-07-28 or later)."""
    return is_version_at_least(ctx.protocol_version, LATEST_MODERN_VERSION)


def declares_forms(ctx: Context) -> bool:
    """Return whether the client declared elicitation in form mode.

    An empty `elicitation` capability means form mode (MCP 2025-11-25, elicitation, capabilities).
    """
    capabilities = ctx.session.client_capabilities
    elicitation = capabilities.elicitation if capabilities else None
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


Kinds = frozenset[str]
"""The kinds of question that a client can be asked: of "form", "url", "sampling" and "roots"."""


def kinds(ctx: Context) -> Kinds:
    """Return the kinds of question that may answer this request: none for an old client."""
    if not is_modern(ctx):
        return _kinds(False, False, False, False)
    declared = ctx.session.client_capabilities or types.ClientCapabilities()
    return _kinds(
        declares_forms(ctx),
        declared.elicitation is not None and declared.elicitation.url is not None,
        declared.sampling is not None,
        declared.roots is not None,
    )


@cache  # one object for all calls: an option may keep it for every call that waits
def _kinds(form: bool, url: bool, sampling: bool, roots: bool) -> Kinds:
    declared = {"form": form, "url": url, "sampling": sampling, "roots": roots}
    return frozenset(kind for kind, is_declared in declared.items() if is_declared)


def kind_of_request(request: types.InputRequest) -> str:
    """Return the kind of a question on the wire; see `Kinds`."""
    match request:
        case types.ElicitRequest(params=types.ElicitRequestURLParams()):
            return "url"
        case types.CreateMessageRequest():
            return "sampling"
        case types.ListRootsRequest():
            return "roots"
        case _:
            return "form"


def can_ask(ctx: Context) -> bool:
    """Return whether this request may be answered with a question.

    That takes a modern client that can show forms.
    """
    return is_modern(ctx) and declares_forms(ctx)


_CAPABILITIES: dict[str, dict[str, Any]] = {
    "form": {"elicitation": {}},
    "url": {"elicitation": {"url": {}}},
    "sampling": {"sampling": {}},
    "roots": {"roots": {}},
}


def check_declared(ctx: Context, result: types.Result) -> None:
    """Refuse to send a question of a kind the client did not declare, whatever the handler did.

    Raises:
        MCPError: -32021, naming the capability (MCP 2026-07-28, missing client capability).
    """
    if not isinstance(result, types.InputRequiredResult) or not is_modern(ctx):
        return
    asked = {kind_of_request(request) for request in (result.input_requests or {}).values()}
    for kind in sorted(asked - kinds(ctx)):
        raise MCPError(
            types.MISSING_REQUIRED_CLIENT_CAPABILITY,
            f"This tool asks a question of the kind {kind!r}, which the client does not declare.",
            {"requiredCapabilities": _CAPABILITIES[kind]},
        )
