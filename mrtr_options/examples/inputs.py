"""The four kinds of question, two of them in one round.

A round may carry any number of requests to the client, under keys of the server's choice, and of any
of four kinds: a form for the user, an address for the user to visit (url mode), a message from the
client's model (sampling), and the folders the client works on (roots). Each kind is sent only to a
client that declared it; each answer is checked against its own question.

The tool `announce(version)` writes the announcement of a release:

1. *folders* (roots) and *audience* (a form) do not depend on each other: they go out in one round.
2. *draft* (sampling) depends on both, so it comes in the second round.
3. *approval* (an address): the user reads the draft on a page of the server's own and approves it
   there. The answer says only that the user went; whether they approved, the server must know itself.

What a stateless server would forget between the rounds travels in the state, sealed: the answers, and
the number of the draft, which is the server's own and must be the same in every round (`memo`).

Sampling and roots are on their way out of the protocol (deprecated in 2026-07-28). Forms and addresses
are there to stay.

Knows the `mcp` SDK, what can be asked, and the stand-in of option J. Run it:
`python -m mrtr_options.examples.inputs`.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import mcp_types as types
from mcp import Client, MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import BaseModel, FileUrl

from mrtr_options.examples.expect import as_it_must, expect, start
from mrtr_options.sdk.questions import Cancelled, CannotAsk, Declined, Inquiry, link, roots, sampling
from mrtr_options.sdk.replay import ReplayContext, keyed_replay
from mrtr_options.tool.weather import Question

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


class Audience(BaseModel):
    """Answer to "audience"."""

    audience: Literal["users", "developers"]


FOLDERS = roots("folders", unasked="This client does not say what it works on.")
AUDIENCE = Question("audience", "Whom is it for?", Audience, unasked="This client cannot be asked.")


def draft(
    version: str, folders: types.ListRootsResult, audience: Audience
) -> Inquiry[types.CreateMessageResult]:
    """Question "draft", for the client's model."""
    names = ", ".join(root.name or str(root.uri) for root in folders.roots)
    wanted = f"Announce version {version} of {names} to {audience.audience}, in one sentence."
    return sampling(
        "draft",
        types.CreateMessageRequestParams(
            messages=[types.SamplingMessage(role="user", content=types.TextContent(text=wanted))],
            max_tokens=200,
        ),
        unasked="This client has no model to write with.",
    )


def approval(number: str) -> Inquiry[types.ElicitResult]:
    """Question "approval", an address for the user to visit."""
    return link(
        "approval",
        "Read the draft and approve it.",
        f"{PAGE}/{number}",
        unasked="This client cannot open an address.",
    )


async def call_announce(
    ctx: ReplayContext[Board], params: types.CallToolRequestParams
) -> types.CallToolResult:
    """The tool `announce(version)`.

    Raises:
        MCPError: -32602, for another tool or arguments that do not fit.
    """
    version = (params.arguments or {}).get("version")
    if params.name != TOOL or not isinstance(version, str):
        raise MCPError(types.INVALID_PARAMS, f"The call does not fit: this is {TOOL}(version: string).")
    board = ctx.lifespan_context
    try:
        folders, audience = await ctx.elicit_all(FOLDERS, AUDIENCE)
        written = await ctx.elicit(draft(version, folders, audience))
        number = await ctx.memo("number", new_number)
        await ctx.elicit(approval(number))
    except (Declined, Cancelled) as outcome:
        return text(f"Nothing was announced: no answer to {outcome.key!r}.")
    except CannotAsk as outcome:
        return text(str(outcome), is_error=True)
    if number not in board.approved:
        return text("Nothing was announced: the draft was not approved.")
    if not isinstance(written.content, types.TextContent):
        return text("Nothing was announced: the draft is no text.", is_error=True)
    announcement = written.content.text

    async def publish(key: str) -> None:
        board.published[key] = announcement

    ctx.on_commit(publish, key="publish")
    return text(f"Announced: {announcement}")


async def new_number() -> str:
    """A draft's number: nobody can guess it, so nobody can approve another's draft."""
    return secrets.token_urlsafe(8)


def text(content: str, *, is_error: bool = False) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=content)], is_error=is_error)


# --- the server ---------------------------------------------------------------------------------


def build_server(board: Board) -> Server[Board]:
    """One instance of the server.

    Args:
        board: The world outside.
    """

    @asynccontextmanager
    async def lifespan(_: Server[Board]) -> AsyncGenerator[Board]:
        yield board

    server = Server(
        "announcements",
        version="1",
        on_list_tools=list_tools,
        on_call_tool=keyed_replay(call_announce),
        lifespan=lifespan,
    )
    # Seals with a key of this process only. A fleet shares its keys: see `multiround`.
    security = RequestStateSecurity.ephemeral()
    server.middleware.append(RequestStateBoundary(security, default_audience=server.name))
    return server


async def list_tools(
    ctx: ServerRequestContext[Board, Any], params: types.PaginatedRequestParams | None
) -> types.ListToolsResult:
    """The server's one tool."""
    announce = types.Tool(
        name=TOOL,
        description="Announces a release. Asks for folders, an audience, a draft and an approval.",
        input_schema={
            "type": "object",
            "properties": {"version": {"type": "string"}},
            "required": ["version"],
        },
    )
    return types.ListToolsResult(tools=[announce])


# --- the other end ------------------------------------------------------------------------------
#
# An app gives the SDK a callback for each kind it can answer, and the SDK declares those kinds and plays
# the rounds. These callbacks note what they are asked.


@dataclass
class App:
    """A client's side: a user who agrees, a model, and one folder.

    Attributes:
        board: Where the user approves drafts.
        goes: Whether the user approves the draft on the page they visit.
        asked: What was asked, in order.
    """

    board: Board
    goes: bool = True
    asked: list[str] = field(default_factory=list[str])

    def note(self, question: str, answer: str) -> None:
        """Print a question with its answer, and keep the question."""
        print(f"  question  {question}")
        print(f"  answer    {answer}")
        self.asked.append(question)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        """The user fills a form in, or visits an address."""
        if isinstance(params, types.ElicitRequestFormParams):
            self.note(f"form: {params.message}", "users")
            return types.ElicitResult(action="accept", content={"audience": "users"})
        self.note(f"address: {params.message}", "visited and approved" if self.goes else "visited")
        if self.goes:
            self.board.approved.add(params.url.removeprefix(f"{PAGE}/"))
        return types.ElicitResult(action="accept")

    async def sample(
        self, context: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        """The model writes."""
        (message,) = params.messages
        assert isinstance(message.content, types.TextContent)
        content = types.TextContent(text="Version 2 is here, and it is quick.")
        self.note(f"model: {message.content.text}", content.text)
        return types.CreateMessageResult(role="assistant", content=content, model="a-model")

    async def list_roots(self, context: Any) -> types.ListRootsResult:
        """The folder this client works on."""
        self.note("folders", "rocket")
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl("file:///rocket"), name="rocket")])


QUESTIONS = [
    "folders",
    "form: Whom is it for?",
    "model: Announce version 2 of rocket to users, in one sentence.",
    "address: Read the draft and approve it.",
]
ANNOUNCED = "Announced: Version 2 is here, and it is quick."
NOT_APPROVED = "Nothing was announced: the draft was not approved."
NO_FOLDERS = "This client does not say what it works on."


async def announce(app: App, *, shares_folders: bool = True) -> str:
    """One call of the tool, whose rounds the SDK plays.

    Args:
        app: Answers.
        shares_folders: Whether the client declares roots.
    """
    print(f'  request   tools/call {TOOL} {{"version": "2"}}')
    async with Client(
        build_server(app.board),
        mode=LATEST_MODERN_VERSION,
        elicitation_callback=app.elicit,
        sampling_callback=app.sample,
        list_roots_callback=app.list_roots if shares_folders else None,
    ) as client:
        result = await client.call_tool(TOOL, {"version": "2"})
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    print(f"  response  {block.text}")
    return block.text


async def first_round(board: Board) -> set[str]:
    """The keys of the first round's questions, on the wire."""
    app = App(board)
    async with Client(
        build_server(board),
        mode=LATEST_MODERN_VERSION,
        elicitation_callback=app.elicit,
        sampling_callback=app.sample,
        list_roots_callback=app.list_roots,
    ) as client:
        asked = await client.session.call_tool(TOOL, {"version": "2"}, allow_input_required=True)
    requests = asked.input_requests if isinstance(asked, types.InputRequiredResult) else None
    return set(requests or {})


async def demonstrate() -> None:
    """Announce a release, then without an approval, then with a client that lacks a kind.

    Raises:
        Surprise: Something else happened.
    """
    print("\nFour kinds of question, two of them in one round")
    app = App(Board())
    expect("round one", await first_round(app.board), {"folders", "audience"})
    expect("the result", await announce(app), ANNOUNCED)
    expect("the questions", sorted(app.asked[:2]) + app.asked[2:], sorted(QUESTIONS[:2]) + QUESTIONS[2:])
    expect("what went out", list(app.board.published.values()), [ANNOUNCED.removeprefix("Announced: ")])

    print("\nThe user visits the address and does not approve")
    app = App(Board(), goes=False)
    expect("the result", await announce(app), NOT_APPROVED)
    expect("what went out", app.board.published, {})

    print("\nA client that does not declare roots is not asked for them")
    app = App(Board())
    expect("the result", await announce(app, shares_folders=False), NO_FOLDERS)
    expect("the questions", app.asked, [])


async def main() -> int:
    """Run the demonstration; 0 if all went as it must, else 1."""
    return await as_it_must(demonstrate)


if __name__ == "__main__":
    start(main, __doc__)
