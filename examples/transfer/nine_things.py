"""Nine things that go wrong with a transfer, over HTTP, at two processes that share one store.

`python nine_things.py` plays them. It prints how many transfers there were, and what the user was
told. Right after a transfer the bank here can kill its process, or say that it took too long.
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
from bank import Bank, Paid, Transfer
from mcp import Client
from mcp_types import (
    ElicitRequestURLParams,
    ElicitResult,
    InputRequiredResult,
    InputResponses,
    TextContent,
)
from transfer_money import TOKENS, caller_of, instance

from mrtr_options import sdk
from mrtr_options.review.bench.world.starting import program
from mrtr_options.sdk.testing import POLICIES, Losing, Policy, call_as_client, client

TOOL = "transfer_money"

PAYS = 3
"""The round that transfers, and asks whether to send a receipt."""

LAST = 4
"""The round that brings the result."""

DIES = "dies after the next transfer"
DIES_LOOKING = "dies when it is asked for the code"
TIMES_OUT = "times out after the next transfer"
"""Files in an instance's folder: how the next transfer, which has happened, or look at it ends."""

ROUND_SECONDS = 5.0
"""The time limit of a round. A call whose process died counts as running until this has passed."""


class FailingBank(Bank):
    """A bank that fails right after a transfer, once, as a file says."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder / "bank.sqlite"))
        self._folder = folder

    def transfer(self, owner: str, reference: str, wanted: Transfer) -> Paid:
        paid = super().transfer(owner, reference, wanted)
        if self._is_told_to(DIES):
            os._exit(1)
        if self._is_told_to(TIMES_OUT):
            raise TimeoutError
        return paid

    def is_confirmed(self, owner: str, reference: str) -> bool:
        if self._is_told_to(DIES_LOOKING):
            os._exit(1)
        return super().is_confirmed(owner, reference)

    def _is_told_to(self, name: str) -> bool:
        try:
            (self._folder / name).unlink()
        except FileNotFoundError:
            return False
        return True


def serve(folder: Path, fee: int) -> None:
    """Serve as an instance, in a process of its own."""
    settings = sdk.Settings.from_environment(caller_of)
    rounds = str(folder / "rounds.sqlite")
    with instance(FailingBank(folder), rounds, settings, fee, ROUND_SECONDS) as server:
        sdk.serve(server, port=0)


@contextmanager
def process(folder: Path, fee: int = 1) -> Generator[str]:
    """Start an instance, and yield its URL."""
    command = [sys.executable, __file__, "--serve", str(folder), "--fee", str(fee)]
    with program(command, stderr=subprocess.PIPE) as child:
        assert child.stderr is not None
        yield next(line for line in child.stderr if line.startswith("http")).strip()


# --- the user, and what they do ------------------------------------------------------------------


Row = tuple[str, int, str]
"""A scene, the number of transfers after it, and the text that the user was told."""

AGAIN = "... and the user calls again"


@dataclass
class User:
    """A user with a phone.

    Attributes:
        bank: The bank that sends codes to the phone.
        reference: The reference of the user's payment.
        name: The name of the user.
        agrees: Whether the user consents.
        wrong: How often the user mistypes the code.
        takes_receipt: Whether the user wants a receipt; else the question is declined.
        asked: The questions that the user was asked.
    """

    bank: Bank
    reference: str
    name: str = "ada"
    agrees: bool = True
    wrong: int = 0
    takes_receipt: bool = True
    asked: list[str] = field(default_factory=list[str])

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        """Fill in a form, or visit the bank's page."""
        self.asked.append(params.message)
        if isinstance(params, ElicitRequestURLParams):
            self.type_code(params.url)
            return ElicitResult(action="accept")
        if "receipt" in params.message and not self.takes_receipt:
            return ElicitResult(action="decline")
        go_ahead = "yes" if self.agrees else "no"
        return ElicitResult(action="accept", content={"go_ahead": go_ahead})

    def type_code(self, page: str) -> None:
        """Type the code on the bank's page, after those that are mistyped."""
        right = self.bank.phone(page)
        for number in range(1, self.wrong + 1):
            self.bank.type_code(page, f"{(int(right) + number) % 10**6:06}")
        self.bank.type_code(page, right)

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
        **otherwise: object,
    ) -> str:
        """Make a call with rounds to both processes in turn; return what its user is told."""
        way = Losing([lose], turns=turns or cycle(self.urls))
        arguments = arguments_of(user) | otherwise
        return await call_as_client(policy, lambda: self.connect(user, way), TOOL, arguments)

    async def row(self, what: str, user: User, *others: User, **call: Any) -> Row:
        """Make a call; return what is done, all these users' transfers, and what its user is told.

        `{asked}` in the words is the number of its questions, and `{fees}` are the fees in them.
        """
        said = await self.call(user, **call)
        done = what.format(asked=len(user.asked), fees=user.consents_to())
        return done, self.transfers(user, *others), said

    def connect(self, user: User, way: Losing | None = None) -> Client:
        """Return a client of this user."""
        (token,) = (token for token, name in TOKENS.items() if name == user.name)
        return client(self.urls[0], user.answer, way, token=token)

    def transfers(self, *users: User) -> int:
        """Count the transfers of these users' payments."""
        paid = {(user.name, user.reference) for user in users}
        return sum(self.bank.find(*each) is not False for each in paid)


def arguments_of(user: User) -> dict[str, Any]:
    """Return the arguments with which the user's model calls the tool."""
    account = {"ada": "A-1", "bob": "B-1"}[user.name]
    return {"from": account, "to": "C-1", "amount": 100, "reference": user.reference}


# --- the nine things -----------------------------------------------------------------------------


async def lost_result(setup: Setup, policy: Policy) -> list[Row]:
    """Lose the response with the result."""
    user = setup.user()
    what = f"the result is lost, the client {policy}"
    rows = [await setup.row(what, user, policy=policy, lose=LAST)]
    return rows if policy != "stops" else [*rows, await setup.row(AGAIN, user)]


async def same_reference(setup: Setup) -> list[Row]:
    """Call twice on purpose, with one reference and then with another."""
    first, second = setup.user(), setup.user()
    await setup.call(first)
    return [
        await setup.row("the same reference again, on purpose", first),
        await setup.row("another reference", second, first),
        await setup.row("... and that one with another amount", second, first, amount=200),
    ]


async def other_words(setup: Setup) -> list[Row]:
    """Call again as a model does that words its arguments anew."""
    user = setup.user()
    await setup.call(user)
    what = "the same call in other words"
    return [await setup.row(what, user, note="the rent for May", amount="100")]


async def early_answer(setup: Setup) -> list[Row]:
    """Send an answer with the first request, before anything was asked."""
    user = setup.user()
    async with setup.connect(user) as caller:
        asked = await caller.session.call_tool(TOOL, arguments_of(user), allow_input_required=True)
        assert isinstance(asked, InputRequiredResult)
        yes = ElicitResult(action="accept", content={"go_ahead": "yes"})
        early: InputResponses = dict.fromkeys(asked.input_requests or {}, yes)
    other = setup.user()
    async with setup.connect(other) as caller:
        said = await caller.call_tool(TOOL, arguments_of(other), input_responses=early)
    (told,) = said.content
    assert isinstance(told, TextContent)
    what = f"answers with the first request; questions asked: {len(other.asked)}"
    return [(what, setup.transfers(other), told.text)]


async def codes(setup: Setup) -> list[Row]:
    """Mistype the code twice, and then three times."""
    return [
        await setup.row(f"{words} wrong codes, then the right one", setup.user(wrong=wrong))
        for words, wrong in (("two", 2), ("three", 3))
    ]


async def declined_receipt(setup: Setup) -> list[Row]:
    """Decline what is asked after the transfer, and call again."""
    user = setup.user(takes_receipt=False)
    return [await setup.row("the receipt is declined", user), await setup.row(AGAIN, user)]


async def timed_out(setup: Setup) -> list[Row]:
    """Let the bank say that it took too long, after it has paid."""
    (setup.folder / TIMES_OUT).touch()
    return [await setup.row("the bank pays, and then times out", setup.user())]


async def changed_fee(setup: Setup) -> list[Row]:
    """Deploy a version with another fee while the question for consent is open."""
    what = "a new fee while the consent is open; asked for: {fees}"
    with process(setup.folder, fee=3) as new:
        turns = chain([setup.urls[0]], repeat(new))
        return [await setup.row(what, setup.user(), turns=turns)]


async def repeat_after_decline(setup: Setup) -> list[Row]:
    """Decline, and call again with the same reference."""
    user = setup.user(agrees=False)
    rows = [await setup.row("the user declines", user)]
    user.agrees = True
    return [*rows, await setup.row("... and calls again", user)]


async def another_caller(setup: Setup) -> list[Row]:
    """Call as another user, with the same reference."""
    ada = setup.user()
    bob = User(setup.bank, ada.reference, name="bob")
    await setup.call(ada)
    return [await setup.row("another caller with the same reference", bob, ada)]


async def killed(
    setup: Setup, policy: Policy, dies: str = DIES, when: str = "after the transfer"
) -> list[Row]:
    """Kill a process right after the transfer, or while it waits."""
    user = setup.user()
    asked = "; questions asked: {asked}"
    with process(setup.folder) as dying:
        (setup.folder / dies).touch()
        turns = chain([dying] * PAYS, repeat(setup.urls[1]))
        what = f"a process is killed {when}, the client {policy}{asked}"
        rows = [await setup.row(what, user, policy=policy, turns=turns)]
    return rows if policy != "stops" else [*rows, await setup.row(AGAIN + asked, user)]


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
            other_words,
            early_answer,
            codes,
            changed_fee,
            repeat_after_decline,
            declined_receipt,
            another_caller,
            timed_out,
        )
        for scene in scenes:
            rows += await scene(setup)
        for policy in POLICIES:
            rows += await killed(setup, policy)
        rows += await killed(setup, "calls again", DIES_LOOKING, "while it waits")
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
