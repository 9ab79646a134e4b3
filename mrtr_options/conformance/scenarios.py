"""Which scenarios of the suite are run, and against what. Knows nothing but their names."""

from __future__ import annotations

SUITE = "0.2.0-alpha.12"
"""The version of the suite that all of this is about."""

SPEC_VERSION = "2026-07-28"

MRTR_PREFIX = "input-required-result-"

MRTR = tuple(
    MRTR_PREFIX + name
    for name in (
        "basic-elicitation",
        "basic-sampling",
        "basic-list-roots",
        "request-state",
        "multiple-input-requests",
        "multi-round",
        "missing-input-response",
        "non-tool-request",
        "result-type",
        "unsupported-methods",
        "tampered-state",
        "capability-check",
        "ignore-extra-params",
        "validate-input",
    )
)
"""A tool or a prompt that asks: for every style."""

TASKS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
    "tasks-mrtr-composition",
)
"""The Tasks extension: for a style that names them as its `SCENARIOS`.

All but `tasks-status-notifications`, which in this version of the suite checks nothing.
"""

SHARED = (
    "server-stateless",
    "http-header-validation",
    "http-custom-header-server-validation",
    "json-schema-2020-12",
    "caching",
    "dns-rebinding-protection",
)
"""What no option is about: for the server that all options share."""

CLIENT = ("sep-2322-client-request-state",)
"""For our client; the suite is the server."""


def spec_version(scenario: str) -> str | None:
    """The version to ask the suite for. An extension has none, and is skipped if it is given one."""
    return None if scenario.startswith("tasks-") else SPEC_VERSION
