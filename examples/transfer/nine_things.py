"""Nine things that go wrong with a transfer, over HTTP, at two processes that share one store.

`python nine_things.py` plays them. It prints how many transfers there were, and what the user was
told. An instance may die right after a transfer: its bank here can kill it.
"""

import argparse
import os
import re
import secrets
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import chain, count, cycle, repeat
from pathlib import Path
from typing import Any

import anyio
from bank import Bank, Transfer
from mcp import Client, MCPError
from mcp_types import CallToolResult, ElicitResult, InputRequiredResult, InputResponses, TextContent
from transfer_money import TOKENS, caller_of, instance

from mrtr_options import sdk
from mrtr_options.sdk.testing import POLICIES, Losing, Policy, call_as_client, client

TOOL = "transfer_money"

LAST = 3
"""The round that brings the result."""

DIES = "dies after the next transfer"
"""A file in an instance's folder. If it exists, the instance dies after its next transfer."""

ROUND_SECONDS = 5.0
"""The time limit of a round. A call whose process died counts as running until this has passed."""


class DyingBank(Bank):
    """A bank that kills its process right after a transfer, once, if a file says so."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "bank.sqlite"))
        self._dies = folder / DIES

    def transfer(self, owner: str, reference: str, wanted: Transfer) -> None:
        super().transfer(owner, reference, wanted)
        if self._dies.exists():
            self._dies.unlink()
            os._exit(1)


def serve(folder: Path, fee: int) -> None:
    """Serve as an instance, in a process of its own."""
    settings = sdk.Settings.from_environment(caller_of)
    rounds = str(folder / "rounds.sqlite")
    with instance(DyingBank(folder), rounds, settings, fee, ROUND_SECONDS) as server:
        sdk.serve(server, port=0)


@contextmanager
def process(folder: Path, fee: int = 1) -> Generator[str]:
    """Start an instance, and yield its URL."""
    command = [sys.executable, __file__, "--serve", str(folder), "--fee", str(fee)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stderr is not None
            yield next(line for line in child.stderr if line.startswith("http")).strip()
        finally:
            child.terminate()


# --- the user, and what they do ------------------------------------------------------------------


@dataclass
class User:
    """A user with a phone.

    Attributes:
        bank: The bank that sends codes to the phone.
        reference: The reference of the user's payment.
        name: The name of the user.
        go_ahead: Whether the user consents.
        wrong: How often the user mistypes the code.
        asked: The questions that the user was asked.
    """

    bank: Bank
    reference: str
    name: str = "ada"
    go_ahead: str = "yes"
    wrong: int = 0
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        """Fill in a form."""
        self.asked.append(params.message)
        if "go_ahead" in params.requested_schema["properties"]:
            return ElicitResult(action="accept", content={"go_ahead": self.go_ahead})
        return ElicitResult(action="accept", content={"code": self.code()})

    def code(self) -> str:
        """Type the code."""
        right = self.bank.phone(self.name, self.reference)
        if self.wrong == 0:
            return right
        self.wrong -= 1
        return f"{(int(right) + 1) % 10**6:06}"

    def consents_to(self) -> str:
        """Return the fees in the questions for consent, in their order."""
        return ", ".join(re.findall(r"fee \d+", " ".join(self.asked)))


@dataclass
class Setup:
    """Two processes on one store, and a bank.

    Attributes:
        folder: The folder of their files.
        urls: The URLs of the processes.
        bank: The destination of the transfers.
        invoices: The numbers of invoices.
    """

    folder: Path
    urls: list[str]
    bank: Bank
    invoices: Iterator[int] = field(default_factory=lambda: count(1))

    def user(self, **kind: Any) -> User:
        """Make a user who pays the next invoice."""
        return User(self.bank, f"invoice {next(self.invoices)}", **kind)

    async def call(
        self,
        user: User,
        policy: Policy = "stops",
        lose: int = 0,
        turns: Iterable[str] | None = None,
        amount: int = 100,
    ) -> str:
        """Make a call with rounds to both processes in turn; return what its user is told."""
        way = Losing([lose], turns=turns or cycle(self.urls))
        arguments = arguments_of(user) | {"amount": amount}
        return await call_as_client(policy, lambda: self.connect(user, way), TOOL, arguments)

    def connect(self, user: User, way: Losing | None = None) -> Client:
        """Return a client of this user."""
        (token,) = (token for token, name in TOKENS.items() if name == user.name)
        return client(self.urls[0], user.answer, way, token=token)

    def transfers(self, *users: User) -> int:
        """Count the transfers of these users' payments."""
        paid = {(user.name, user.reference) for user in users}
        recorded = [self.bank.recorded(*each) for each in paid]
        return len(recorded) - recorded.count(None)


def arguments_of(user: User) -> dict[str, Any]:
    """Return the arguments with which the user's model calls the tool."""
    account = {"ada": "A-1", "bob": "B-1"}[user.name]
    return {"from": account, "to": "C-1", "amount": 100, "reference": user.reference}


Row = tuple[str, int, str]
"""A scene, the number of transfers after it, and the text that the user was told."""


# --- the nine things -----------------------------------------------------------------------------


async def lost_result(setup: Setup, policy: Policy) -> list[Row]:
    """Lose the response with the result."""
    user = setup.user()
    said = await setup.call(user, policy, LAST)
    rows = [(f"the result is lost, the client {policy}", setup.transfers(user), said)]
    if policy == "stops":
        again = await setup.call(user)
        rows.append(("... and the user calls again", setup.transfers(user), again))
    return rows


async def same_reference(setup: Setup) -> list[Row]:
    """Call twice on purpose, with one reference and then with another."""
    first = setup.user()
    second = setup.user()
    await setup.call(first)
    said = await setup.call(first)
    rows = [("the same reference again, on purpose", setup.transfers(first), said)]
    said = await setup.call(second)
    rows.append(("another reference", setup.transfers(first, second), said))
    said = await setup.call(second, amount=200)
    return [*rows, ("... and that one with another amount", setup.transfers(first, second), said)]


async def early_answer(setup: Setup) -> list[Row]:
    """Send answers with the first request, before anything was asked."""
    user = setup.user()
    early: InputResponses = {
        "consent": ElicitResult(action="accept", content={"go_ahead": "yes"}),
        "code 1": ElicitResult(action="accept", content={"code": "000000"}),
    }
    async with setup.connect(user) as caller:
        said = await caller.call_tool(TOOL, arguments_of(user), input_responses=early)
    what = f"answers with the first request; questions asked: {len(user.asked)}"
    return [(what, setup.transfers(user), text_of(said))]


async def guesses(setup: Setup) -> list[Row]:
    """Guess the code three times: in answers to one question, then in answers to three."""
    user = setup.user()
    said = await guessed_at_one_question(setup, user)
    rows = [("three guesses at one question, the third is right", setup.transfers(user), said)]
    user = setup.user(wrong=2)
    said = await setup.call(user)
    rows.append(("two wrong codes, then the right one", setup.transfers(user), said))
    user = setup.user(wrong=3)
    said = await setup.call(user)
    return [*rows, ("three wrong codes", setup.transfers(user), said)]


async def guessed_at_one_question(setup: Setup, user: User) -> str:
    """Send one state with three codes, as no honest client does; return the outcomes."""
    outcomes: list[str] = []
    async with setup.connect(user) as caller:
        consent = await send(caller, user)
        yes: InputResponses = {
            "consent": ElicitResult(action="accept", content={"go_ahead": "yes"})
        }
        asks_code = await send(caller, user, yes, state_of(consent))
        right = user.code()
        for code in (f"{(int(right) + 1) % 10**6:06}", f"{(int(right) + 2) % 10**6:06}", right):
            guess: InputResponses = {
                "code 1": ElicitResult(action="accept", content={"code": code})
            }
            try:
                result = await send(caller, user, guess, state_of(asks_code))
            except MCPError as error:
                outcomes.append(f"error: {error}")
            else:
                outcomes.append("asked again" if state_of(result) else text_of(result))
    return "; ".join(outcomes)


async def changed_fee(setup: Setup) -> list[Row]:
    """Deploy a version with another fee while the question for consent is open."""
    user = setup.user()
    old = setup.urls[0]
    with process(setup.folder, fee=3) as new:
        said = await setup.call(user, turns=chain([old], repeat(new)))
    what = f"a new fee while the consent is open; asked for: {user.consents_to()}"
    return [(what, setup.transfers(user), said)]


async def repeat_after_decline(setup: Setup) -> list[Row]:
    """Decline, and call again with the same reference."""
    user = setup.user(go_ahead="no")
    said = await setup.call(user)
    rows = [("the user declines", setup.transfers(user), said)]
    user.go_ahead = "yes"
    said = await setup.call(user)
    return [*rows, ("... and calls again", setup.transfers(user), said)]


async def another_caller(setup: Setup) -> list[Row]:
    """Call as another user, with the same reference."""
    ada = setup.user()
    bob = User(setup.bank, ada.reference, name="bob")
    await setup.call(ada)
    said = await setup.call(bob)
    return [("another caller with the same reference", setup.transfers(ada, bob), said)]


async def killed(setup: Setup, policy: Policy) -> list[Row]:
    """Kill a process right after the transfer."""
    user = setup.user()
    with process(setup.folder) as dying:
        (setup.folder / DIES).touch()
        turns = chain([dying] * LAST, repeat(setup.urls[1]))
        said = await setup.call(user, policy, turns=turns)
    what = f"a process is killed after the transfer, the client {policy}"
    rows = [(f"{what}; questions asked: {len(user.asked)}", setup.transfers(user), said)]
    if policy == "stops":
        again = await setup.call(user)
        what = f"... and the user calls again; questions asked: {len(user.asked)}"
        rows.append((what, setup.transfers(user), again))
    return rows


# --- rounds by hand ------------------------------------------------------------------------------

Response = CallToolResult | InputRequiredResult


async def send(
    caller: Client, user: User, answers: InputResponses | None = None, state: str | None = None
) -> Response:
    """Send one round."""
    return await caller.session.call_tool(
        TOOL,
        arguments_of(user),
        input_responses=answers,
        request_state=state,
        allow_input_required=True,
    )


def state_of(response: Response) -> str | None:
    """Return the state of a question; None for a result."""
    return response.request_state if isinstance(response, InputRequiredResult) else None


def text_of(response: Response) -> str:
    """Return the text of a result."""
    assert isinstance(response, CallToolResult)
    return "".join(each.text for each in response.content if isinstance(each, TextContent))


# --- all of them ---------------------------------------------------------------------------------

Scene = Callable[[Setup], Awaitable[list[Row]]]


@asynccontextmanager
async def two_processes() -> AsyncGenerator[Setup]:
    """Start both instances."""
    os.environ["MRTR_STATE_KEYS"] = secrets.token_hex(32)  # the same for all instances
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        bank = Bank(str(folder / "bank.sqlite"))
        urls = [stack.enter_context(process(folder)) for _ in range(2)]
        yield Setup(folder, urls, bank)


async def play() -> list[Row]:
    """Play all scenes, one after another."""
    rows: list[Row] = []
    async with two_processes() as setup:
        for policy in POLICIES:
            rows += await lost_result(setup, policy)
        scenes: tuple[Scene, ...] = (
            same_reference,
            early_answer,
            guesses,
            changed_fee,
            repeat_after_decline,
            another_caller,
        )
        for scene in scenes:
            rows += await scene(setup)
        for policy in POLICIES:
            rows += await killed(setup, policy)
    return [(what, transfers, without_times(said)) for what, transfers, said in rows]


def without_times(said: str) -> str:
    """Replace each time by a word, and put the text on one line."""
    time = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"
    return re.sub(time, "TIME", said).replace("\n", " ")


def show(rows: list[Row]) -> None:
    """Print each scene, the number of transfers, and below it what the user was told."""
    print(f"{'what is done; below it what the user was told':80} transfers")
    for what, transfers, said in rows:
        print(f"{what:86} {transfers}")
        print(textwrap.indent(textwrap.fill(said, 84), "    "))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fee", type=int, default=1, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is None:
        show(anyio.run(play))
    else:
        serve(given.serve, given.fee)
