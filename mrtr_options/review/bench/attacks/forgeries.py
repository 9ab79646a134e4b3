"""Forged states: all that a malicious client makes of a state that it was given.

Among them are well-formed payloads that a careless server reads before it verifies a state. A
payload that runs as code writes one row into the ledger of the review: an effect that the contract
does not have. So a server that runs it is seen, and nothing else happens. Of servers it knows how
long a state may be.
"""

from __future__ import annotations

import base64
import json
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import mcp_types as types

from mrtr_options.review.bench.attacks.changes import (
    change_readable,
    damage,
    damage_signatures,
    flip_bits,
    guess_neighbours,
    sign_again,
    sign_other_heads,
    signed_as_told,
    splice,
    unsigned_tokens,
)
from mrtr_options.review.bench.client.player import Player
from mrtr_options.review.bench.history.state_text import parts, spelling
from mrtr_options.review.bench.messages import Reply, Request
from mrtr_options.review.bench.steps import (
    NOTHING,
    RoundName,
    Step,
    UserAnswer,
    agree,
    in_full_width,
)
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES

MAX_FORGERIES = 350
"""The most states that are forged from one."""

_MADE_UP = (
    "",
    "0",
    "1",
    "null",
    "{}",
    "[]",
    "not a state",
    "\u00e9\u2603",
    "../../etc/passwd",
    "Springfield, Missouri",
    '{"place": "Springfield, Missouri"}',
    base64.urlsafe_b64encode(b'{"place": "Springfield, Missouri"}').decode(),
    "A" * (20 * 1024),
)


Forged = list[tuple[str, str]]
"""Forged states, each behind its description."""

CODE = (
    "__import__('sqlite3').connect(__import__('os').environ['MRTR_LEDGER'], timeout=5,"
    ' isolation_level=None).execute("INSERT INTO effects (kind, subject, at)'
    " VALUES ('code', 'from a state that a client made up', '')\")"
)
"""An expression that writes a row, in the process of a server that the review runs."""

DEPTH = 3_000
"""The depth of a payload's lists: deeper than most readers go, and shorter than 16 KiB."""

INFLATED_BYTES = 8 * 2**20
"""The unpacked length of the payload that unpacks to far more than was sent."""

_CLAIM = {"place": "Springfield, Missouri"}


class _Runs:
    """An object whose pickle evaluates an expression when it is loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, (CODE,)


def _yaml() -> str:
    quoted = CODE.replace("'", "''")
    return f"!!python/object/apply:builtins.eval ['{quoted}']"


PAYLOADS: dict[str, bytes] = {
    "a pickle that runs code": pickle.dumps(_Runs(), protocol=2),
    "a pickle": pickle.dumps(_CLAIM, protocol=2),
    "YAML that runs code": _yaml().encode(),
    "YAML": b"place: Springfield, Missouri\n",
    "deep JSON": b"[" * DEPTH + b"]" * DEPTH,
    "JSON with a number of 4,000 digits": json.dumps(_CLAIM)[:-1].encode()
    + b', "at": '
    + b"9" * 4_000
    + b"}",
    "a small text that unpacks to much": zlib.compress(b" " * INFLATED_BYTES, 9),
}
"""The payloads, by their description."""


def forge(state: str, others: Sequence[str]) -> Forged:
    """Return forged states, each with a description, made of a state and others.

    States that the client was given are left out, unless a client could guess them.
    """
    found: dict[str, str] = {}
    given = {spelling(each) for each in (state, *others)}
    for attack in (
        sign_again,
        sign_other_heads,
        change_readable,
        unsigned_tokens,
        damage_signatures,
        partial(splice, others=others),
        damage,
        guess_neighbours,
        flip_bits,
    ):
        for name, forged in attack(state):
            if spelling(forged) not in given or (attack is guess_neighbours and forged != state):
                found.setdefault(forged, name)
    made_up = [(f"made up: {text[:40]!r}", text) for text in _MADE_UP]
    made_up += _foreign_payloads(state)
    made_up += [
        ("white space around it", f" {state}\n"),
        ("its end in full width", state[:-10] + in_full_width(state[-10:])),
    ]
    made_up += [
        (f"17000 times {mark!r} behind it", state + 17_000 * mark) for mark in (" ", "=", "A")
    ]
    kept = [(name, forged) for forged, name in found.items()][: MAX_FORGERIES - len(made_up)]
    names: dict[str, int] = {}
    numbered: Forged = []
    for name, forged in [*kept, *made_up]:
        number = names.get(name, 0) + 1
        names[name] = number
        numbered.append((name if number == 1 else f"{name} ({number})", forged))
    return numbered


def spread_over(made: Sequence[tuple[str, str]], most: int) -> Forged:
    """Return `most` of the forged states, at equal distances; the last one always."""
    if len(made) <= most:
        return list(made)
    distance = len(made) / most
    return [made[int((number + 1) * distance) - 1] for number in range(most)]


def _foreign_payloads(state: str) -> Forged:
    """Return states in well-formed formats that this server does not use.

    Each stands alone, and in place of a readable part of the state.
    """
    found: Forged = []
    for name, payload in PAYLOADS.items():
        found.append((f"{name} in base64", base64.urlsafe_b64encode(payload).decode()))
        if payload.isascii():
            found.append((name, payload.decode()))
        for part in parts(state)[1:MAX_PLACES]:
            forged = part.write(payload)
            if len(forged) <= MAX_TOKEN_BYTES:
                found.append((f"{name} in place of a part", forged))
    return found


MAX_PLACES = 4
"""The most parts of a state that are replaced by a foreign payload."""


# --- the step -----------------------------------------------------------------------------------

_AS_TOLD = ", signed as its refusal says"
"""The end of the name of a state that is made with a signature from a refusal."""

MAX_TOLD = 40
"""The most such states that are tried of one state."""

MANY_FORGED = 20
"""The number of forged states that counts for all of them."""


@dataclass(frozen=True)
class Forge(Step):
    """States that a client forges from those it holds (`forgeries`), each sent with a good answer.

    Attributes:
        name: The name of the round whose state is forged: the question that it answers.
        answer: The user's answer to that question; None to agree.
        call: The number of the call.
        only: The name of the one state that is made; empty for all.
        most: The number of states that are sent, spread over all kinds; 0 for all.
    """

    name: RoundName
    answer: UserAnswer | None = None
    call: int = 1
    only: str = ""
    most: int = 0

    @property
    def calls(self) -> tuple[int, ...]:
        return (self.call,)

    @property
    def effects(self) -> int:
        return self.most or MANY_FORGED

    async def play(self, player: Player) -> None:
        """Send every state that can be forged. Do nothing if the question was not asked."""
        asked = player.open_question(self.call, self.name)
        if asked is None or asked.state is None:
            return
        answers = None
        if self.answer != NOTHING:
            answers = {asked.key: self.answer or agree(self.name)}
        made = forge(asked.state, [state for state in player.held if state != asked.state])
        if self.most and not self.only:
            made = spread_over(made, self.most)
        left = MAX_TOLD
        for name, state in made:
            if self.only not in ("", name) and not self.only.startswith(f"{name}{_AS_TOLD}"):
                continue
            reply = await self._send(player, answers, name, state)
            if not left:
                continue
            says = f"{reply.message} {reply.data}"
            for number, signed in enumerate(signed_as_told(state, says), start=1):
                as_told = f"{name}{_AS_TOLD} ({number})"
                if self.only in ("", as_told) and left:
                    left -= 1
                    await self._send(player, answers, as_told, signed)

    async def _send(
        self, player: Player, answers: types.InputResponses | None, name: str, state: str
    ) -> Reply:
        """Send one forged state."""
        who = player.scenario.callers[self.call - 1]
        request = Request(who.location, answers, state, who.principal, who.asks, forged=name)
        to = [player.next_instance()]
        return await player.play_round(request, to, call=self.call, unseen=True)
