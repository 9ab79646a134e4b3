"""The page as one HTML file, with style, script and data inside.

Its content security policy allows nothing else. Knows how a page is put together; nothing of its
content.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from documents.page.costs import costs
from model.drawing import STYLE as GUARD_STYLE
from model.drawing import GuardGraph
from mrtr_options.review.show.svg import STYLE, source_of
from scoreboard.cost.report import Report

HERE = Path(__file__).parent

SCRIPTS = (
    "dom.js",
    "runs.js",
    "options.js",
    "diagram.js",
    "player.js",
    "diff.js",
    "overview.js",
    "tables.js",
    "scoreboard.js",
    "main.js",
)
"""The files of the script, in order: while it loads, a file uses only the files above it."""

MAX_BYTES = 6 * 2**20
"""The largest size of the page, in bytes."""


def page(data: Mapping[str, Any], report: Report) -> str:
    """Return the whole file.

    The data of the script is JSON, deflated, in base64. The costs and the guard are drawn here.
    """
    names = {each["name"]: each["title"] for each in data["subjects"]}
    names["default"] = f"{names.get(data['default'], '')}: the default"
    text = {
        name: (HERE / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", *SCRIPTS)
    }
    script = "\n".join(text[name] for name in SCRIPTS)
    packed = zlib.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9)
    style = text["page.css"] + STYLE + GUARD_STYLE
    parts = {
        # The policy names no address and no `connect-src`: the browser refuses every request.
        "policy": f"default-src 'none'; script-src {source_of(script)};"
        f" style-src {source_of(style)}; base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "data": base64.b64encode(packed).decode(),
        "costs": costs(report, names),
        "guard": GuardGraph().inside(),
        "made": _describe_versions(data["made"]),
    }
    whole = text["page.html"]
    for name, part in parts.items():
        before, after = whole.split("{" + name + "}")
        whole = before + part + after
    return whole


def _describe_versions(of: Mapping[str, str]) -> str:
    """Return the versions that the page shows: the project's, its commit and date, the SDK's."""
    commit = f"commit {of['commit']}, {of['date']}" if of["commit"] else ""
    parts = (f"version {of['mrtr-options']}", commit, f"mcp {of['mcp']}")
    return escape(" · ".join(filter(None, parts)))
