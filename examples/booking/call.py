"""Calls the tool with the SDK's own client: python call.py URL GUEST [REFERENCE]."""

import argparse
import secrets
from typing import Any

import anyio
from mcp import Client
from mcp_types import ElicitResult, TextContent


async def user(context: Any, params: Any) -> ElicitResult:
    """Accept each form with its last choice."""
    ((name, field),) = params.requested_schema["properties"].items()
    choice = field["enum"][-1]
    print(f"  {params.message} {choice}")
    return ElicitResult(action="accept", content={name: choice})


async def main(url: str, guest: str, reference: str) -> None:
    arguments: dict[str, Any] = {"guest": guest, "party": 2, "reference": reference}
    async with Client(url, mode="2026-07-28", elicitation_callback=user) as client:
        result = await client.call_tool("book_table", arguments)
        for each in result.content:
            if isinstance(each, TextContent):
                print(each.text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("url")
    parser.add_argument("guest")
    parser.add_argument("reference", nargs="?", default=secrets.token_hex(8))
    given = parser.parse_args()
    anyio.run(main, given.url, given.guest, given.reference)
