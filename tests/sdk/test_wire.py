"""Tests of a server's responses besides its questions: hints, deadlines, reasons of refusals."""

import re
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer
from pydantic import BaseModel

import mrtr_options
from mrtr_options import sdk
from mrtr_options.sdk.reasons import Reason
from tests.commands import REPOSITORY
from tests.sdk.fakes import Name

HINTS = types.ToolAnnotations(read_only_hint=True, title="Tables")


class Booking(BaseModel):
    party: int


def tool(**more: Any) -> sdk.Tool:
    async def book(ctx: sdk.Context, params: sdk.Params) -> sdk.Result:
        question = sdk.Question("name", "Whose name?", Name)
        if sdk.answer_to(question, ctx, params) is None:
            return sdk.ask(question, sdk.Markers())
        return sdk.text("booked")

    return sdk.Tool("book", "Books.", Booking, book, **more)


def lowlevel(settings: sdk.Settings, **more: Any) -> Any:
    return sdk.build_server("restaurant", tool(**more), settings=settings)


def high_tier(settings: sdk.Settings, **more: Any) -> Any:
    server = MCPServer("restaurant")
    tool(**more).add_to(server)
    sdk.protect(server, settings)
    return server


TIERS = pytest.mark.parametrize("build", [lowlevel, high_tier])


@TIERS
@pytest.mark.anyio
async def test_a_tools_annotations_are_in_its_listing(build: Any) -> None:
    async with Client(build(sdk.Settings(), annotations=HINTS)) as client:
        (listed,) = (await client.list_tools()).tools
    assert listed.annotations == HINTS


def test_annotations_of_another_type_are_refused() -> None:
    with pytest.raises(TypeError, match=r"takes annotations=mcp_types\.ToolAnnotations"):
        tool(annotations={"readOnlyHint": True})


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
