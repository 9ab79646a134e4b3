"""Tests of a server's responses besides its questions: hints, deadlines, reasons of refusals."""

import re
from dataclasses import replace

import mcp_types as types
import pytest

import mrtr_options
from mrtr_options.sdk.reasons import Reason
from tests.commands import REPOSITORY
from tests.restaurant import TIERS, Serve, modern, tool

HINTS = types.ToolAnnotations(read_only_hint=True, title="Tables")


@TIERS
@pytest.mark.anyio
async def test_a_tools_annotations_are_in_its_listing(serve: Serve) -> None:
    async with modern(serve(replace(tool(), annotations=HINTS))) as client:
        listed = {each.name: each for each in (await client.list_tools()).tools}
    assert listed["book_table"].annotations == HINTS


def test_each_reason_on_the_wire_is_in_the_vocabulary_and_in_the_documents() -> None:
    package = mrtr_options.__path__[0]
    used: set[str] = set()
    for path in sorted((REPOSITORY / package).rglob("*.py")):
        if "review" in path.parts or "demo" in path.parts:
            continue
        source = path.read_text(encoding="utf-8")
        used |= set(re.findall(r'"reason": "(\w+)"', source))
        used |= set(re.findall(r'\brefused\("(\w+)"', source))
    known = {reason.value for reason in Reason}
    assert used <= known, "a reason that is not in the vocabulary"
    page = (REPOSITORY / "docs" / "results" / "REFERENCE.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, re.MULTILINE)
    assert {name.strip("`") for row in rows for name in row.split(", ")} == known
