"""The four kinds of question, two of them in one round.

A round may carry any number of requests to the client, under keys of the server's choice, and of
any of four kinds: a form for the user, an address for the user to visit (url mode), a message from
the client's model (sampling), and the folders the client works on (roots). Each kind is sent only
to a client that declared it; each answer is checked against its own question.

The tool `announce(version)` writes the announcement of a release:

1. *folders* (roots) and *audience* (a form) do not depend on each other: they go out in one round.
2. *draft* (sampling) depends on both, so it comes in the second round.
3. *approval* (an address): the user reads the draft on a page of the server's own and approves it
   there. The answer says only that the user went; whether they approved, the server must know
   itself.

What a stateless server would forget between the rounds travels in the state, sealed: the answers,
and the number of the draft, which is the server's own and must be the same in every round (`memo`).

Sampling and roots are on their way out of the protocol (deprecated in 2026-07-28). Forms and
addresses are there to stay.

Knows the names of `sdk`. Run it: `python -m examples.inputs`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal

import mcp_types as types
from mcp.server import Server
from pydantic import BaseModel, FileUrl

from examples.expect import expect, start
from examples.printed_rounds import Declared, Request, Response, accept, play
from mrtr_options import sdk

TOOL = "announce"
PAGE = "https://announcements.example.com"


@dataclass
class Board:
    """The world outside.

    Attributes:
        approved: Numbers of the drafts that a user has approved on the page.
        published: The announcements that went out, under the idempotency key of each.
    """

    approved: set[str] = field(default_factory=set[str])
    published: dict[str, str] = field(default_factory=dict[str, str])


class Release(BaseModel):
    """The arguments of the tool."""

    version: str


class Audience(BaseModel):
    """The answer to "audience"."""

    audience: Literal["users", "developers"]


FOLDERS = sdk.roots("folders", unasked="This client does not say what it works on.")
AUDIENCE = sdk.Question(
    "audience", "Whom is it for?", Audience, unasked="This client cannot be asked."
)


def draft(
    version: str, folders: types.ListRootsResult, audience: Audience
) -> sdk.Inquiry[types.CreateMessageResult]:
    """Return the question "draft", for the client's model."""
    names = ", ".join(root.name or str(root.uri) for root in folders.roots)
    wanted = f"Announce version {version} of {names} to {audience.audience}, in one sentence."
    return sdk.sampling(
        "draft",
        types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text=wanted))],
            max_tokens=200,
        ),
        unasked="This client has no model to write with.",
    )


def approval(number: str) -> sdk.Inquiry[types.ElicitResult]:
    """Return the question "approval", an address for the user to visit."""
    return sdk.link(
        "approval",
        "Read the draft and approve it.",
        f"{PAGE}/{number}",
        unasked="This client cannot open an address.",
    )


async def call_announce(ctx: sdk.ReplayContext[Board], params: sdk.Params) -> types.CallToolResult:
    """Announce a release: the tool `announce(version)`."""
    version = sdk.arguments_of(params, Release).version
    board = ctx.lifespan_context
    folders, audience = await ctx.elicit_all(FOLDERS, AUDIENCE)
    written = await ctx.elicit(draft(version, folders, audience))
    number = await ctx.memo("number", new_number)
    await ctx.elicit(approval(number))
    if number not in board.approved:
        return sdk.text("Nothing was announced: the draft was not approved.")
    if not isinstance(written.content, types.TextContent):
        return sdk.text("Nothing was announced: the draft is no text.", is_error=True)
    announcement = written.content.text

    async def publish(key: str) -> None:
        board.published[key] = announcement

    ctx.on_commit(publish, key="publish")
    return sdk.text(f"Announced: {announcement}")


async def new_number() -> str:
    """Draw a draft's number. A user cannot guess it, so each can approve only their own draft."""
    return secrets.token_urlsafe(8)


# --- the server ---------------------------------------------------------------------------------


def build_server(board: Board) -> Server[Board]:
    """Build one instance of the server.

    Args:
        board: The world outside.
    """
    says = "Announces a release. Asks for folders, an audience, a draft and an approval."
    tool = sdk.Tool(TOOL, says, Release, sdk.keyed_replay(call_announce))
    # A key of this process only. A fleet shares its keys: see `multiround`.
    return sdk.build_server("announcements", tool, lifespan_context=board, settings=sdk.Settings())


# --- the other end ------------------------------------------------------------------------------
#
# An app gives the SDK a callback for each kind it can answer, and the SDK declares those kinds and
# plays the rounds. Here they are played by hand.

ANNOUNCE = Request("tools/call", TOOL, {"version": "2"})
ALL: tuple[Declared, ...] = ("elicitation", "sampling", "roots")
SHARED = types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///rocket"), name="rocket")])
FILLED_IN = accept(audience="users")
SENTENCE = "Version 2 is here, and it is quick."
WRITTEN = types.CreateMessageResult(
    role="assistant", content=types.TextContent(text=SENTENCE), model="a-model"
)
VISITED = types.ElicitResult(action="accept")

ROUND_ONE = "question folders: roots/list; question audience: Whom is it for?"
ROUND_TWO = "question draft: Announce version 2 of rocket to users, in one sentence."
ROUND_THREE = "question approval: Read the draft and approve it."
ANNOUNCED = f"result: Announced: {SENTENCE}"
NOT_APPROVED = "result: Nothing was announced: the draft was not approved."
NO_FOLDERS = "isError result: This client does not say what it works on."


async def rounds_to_approval(server: Server[Board]) -> Response:
    """Play the rounds up to the last question, and return its response."""
    asked = await play(server, ANNOUNCE, declares=ALL, says=ROUND_ONE)
    answers: types.InputResponses = {"folders": SHARED, "audience": FILLED_IN}
    asked = await play(server, ANNOUNCE, answers, asked, declares=ALL, says=ROUND_TWO)
    return await play(server, ANNOUNCE, {"draft": WRITTEN}, asked, declares=ALL, says=ROUND_THREE)


def number_of(asked: Response) -> str:
    """Return the number of the draft that the user is asked to approve."""
    assert isinstance(asked, types.InputRequiredResult)
    request = (asked.input_requests or {})["approval"]
    assert isinstance(request.params, types.ElicitRequestURLParams)
    return request.params.url.removeprefix(f"{PAGE}/")


async def demonstrate() -> None:
    """Announce a release, then without an approval, then with a client that lacks a kind.

    Raises:
        Surprise: Something else happened.
    """
    board = Board()
    server = build_server(board)
    visited: types.InputResponses = {"approval": VISITED}

    print(
        "\nFour kinds of question, two of them in one round; the user visits the page and approves"
    )
    asked = await rounds_to_approval(server)
    board.approved.add(number_of(asked))
    await play(server, ANNOUNCE, visited, asked, declares=ALL, says=ANNOUNCED)
    expect("what went out", list(board.published.values()), [SENTENCE])

    print("\nThe user visits the page and does not approve")
    board.published.clear()
    asked = await rounds_to_approval(server)
    await play(server, ANNOUNCE, visited, asked, declares=ALL, says=NOT_APPROVED)
    expect("what went out", board.published, {})

    print("\nA client that does not declare roots is not asked for them")
    await play(server, ANNOUNCE, declares=("elicitation", "sampling"), says=NO_FOLDERS)


if __name__ == "__main__":
    start(demonstrate, __doc__)
