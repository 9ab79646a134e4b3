"""Edits: the changes of a script to a state or to the key of a question."""

from __future__ import annotations

import base64

from mrtr_options.review.bench.steps import KeyEdit, StateEdit
from mrtr_options.sdk.protection import MAX_TOKEN_BYTES


def edit_state(state: str | None, edit: StateEdit | None) -> str | None:
    """Apply an edit to a state. Return it unchanged if there is no state or no edit."""
    if state is None or edit is None:
        return state
    middle = len(state) // 2
    forged = ".".join(map(_in_another_place, state.split(".")))
    letter = "A" if state[middle : middle + 1] not in ("A", "a") else "B"
    changed = state[:middle] + letter + state[middle + 1 :]
    edits: dict[StateEdit, str | None] = {
        "drop": None,
        "changed": changed,
        "cut short": state[:-8],
        "not a state": "not a state",
        "too long": state + "A" * (4 * MAX_TOKEN_BYTES),  # and a body that a server reads
        "another place": forged if forged != state else changed,
    }
    return edits[edit]


def edit_key(key: str, edit: KeyEdit) -> str:
    """Return another key that a careless server may take for this one.

    A key that the edit leaves as it is gets an underscore: it has no letters, for example.
    """
    edits: dict[KeyEdit, str] = {
        "in capitals": key.upper(),
        "in other case": key.swapcase(),
        "a space before it": f" {key}",
        "a space behind it": f"{key} ",
        "with a prefix": f"the-{key}",
        "cut short": key[:-1],
        "in full width": in_full_width(key),
        "an underscore behind it": f"{key}_",
        "behind a slash": f"old/{key}",
        "behind a dot": f"old.{key}",
        "before a dot": f"{key}.old",
        "with an index": f"{key}[0]",
    }
    changed = edits[edit]
    return changed if changed != key else f"{key}_"


def _in_another_place(part: str) -> str:
    """Put another place into a part of a token; return it unchanged if it has none in base64."""
    try:
        payload = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return part
    forged = base64.urlsafe_b64encode(payload.replace(b"Illinois", b"Missouri")).decode()
    return part if b"Illinois" not in payload else forged[: len(part)]


def in_full_width(text: str) -> str:
    """Return a text in full-width letters, which Unicode calls compatible."""
    return text.translate({ordinal: ordinal + 0xFEE0 for ordinal in range(ord("!"), ord("~") + 1)})
