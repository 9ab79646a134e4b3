"""The page as one file of HTML: style, script and data inside, and a policy that allows nothing
else.

Knows how a page is put together; nothing of what is on it.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from documents.page.costs import costs
from mrtr_options.review.show.svg import STYLE, source_of

HERE = Path(__file__).parent

SCRIPTS = (
    "dom.js", "runs.js", "options.js", "diagram.js", "player.js", "diff.js", "overview.js", "tables.js",
    "main.js",
)  # fmt: skip
"""In this order they are one script: each uses only what is above it, or is called later."""

MAX_BYTES = 6 * 2**20
"""How large the page may be."""


def page(data: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> str:
    """The whole file: what the script shows (as JSON, deflated, in base64), and what calls cost."""
    names = {each["name"]: f"{each['short']} {each['says']}" for each in data["subjects"]}
    text = {
        name: (HERE / name).read_text(encoding="utf-8")
        for name in ("page.html", "page.css", *SCRIPTS)
    }
    script = "\n".join(text[name] for name in SCRIPTS)
    packed = zlib.compress(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), 9)
    style = text["page.css"] + STYLE
    parts = {
        # Without `connect-src` or any address at all, the browser itself refuses every request.
        "policy": f"default-src 'none'; script-src {source_of(script)}; style-src {source_of(style)};"
        " base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "data": base64.b64encode(packed).decode(),
        "costs": costs(measured, names),
        "made": _made(data["made"]),
    }
    whole = text["page.html"]
    for name, part in parts.items():
        before, after = whole.split("{" + name + "}")
        whole = before + part + after
    return whole


def _made(of: Mapping[str, str]) -> str:
    """What the page shows: the version, the commit and its date, and the SDK."""
    commit = f"commit {of['commit']}, {of['date']}" if of["commit"] else ""
    parts = (f"version {of['mrtr-options']}", commit, f"mcp {of['mcp']}")
    return escape(" · ".join(filter(None, parts)))
