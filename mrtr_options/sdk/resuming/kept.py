"""What a client keeps of a call that has not ended, and where.

Whoever has it can go on with the call, so a file can be read by its owner only. Knows MCP's types.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
from pydantic import BaseModel, Field, ValidationError

from mrtr_options.sdk.call_key import new_call_key

MAX_BYTES = 16 * 2**20
"""How long the file of a call may be."""

_logger = logging.getLogger(__name__)


class CannotKeep(Exception):
    """A call cannot be written or read. The text is one line that names the file."""


class Call(BaseModel):
    """A call between two rounds: all that is needed to go on.

    Attributes:
        server: The host's name for the server: its URL, for example.
        tool, arguments: What is called; every round sends them again.
        key: The call key.
        called_before: Whether the host gave the key, so that a call under it may have happened before.
        begun: Whether the first request was sent, perhaps.
        pending: What the last response asked, with the state to carry back unread; None before it.
        answers: What was answered to that.
        said: Every answer of the call, by a digest of the question.
    """

    server: str
    tool: str
    arguments: dict[str, Any] | None = None
    key: str = Field(default_factory=new_call_key)
    called_before: bool = False
    begun: bool = False
    pending: types.InputRequiredResult | None = None
    answers: types.InputResponses = Field(default_factory=dict[str, types.InputResponse])
    said: types.InputResponses = Field(default_factory=dict[str, types.InputResponse])

    @property
    def open(self) -> dict[str, types.InputRequest]:
        """The questions that have no answer yet, by key."""
        asked = (self.pending and self.pending.input_requests) or {}
        return {key: request for key, request in asked.items() if key not in self.answers}

    def asked(self, pending: types.InputRequiredResult) -> Call:
        """The call after a response that asks."""
        return self.model_copy(update={"begun": True, "pending": pending, "answers": {}})

    def answered(self, key: str, answer: types.InputResponse) -> Call:
        """The call after an answer to one of its open questions."""
        question = digest_of(key, self.open[key])
        return self.model_copy(
            update={"answers": {**self.answers, key: answer}, "said": {**self.said, question: answer}}
        )

    def from_the_beginning(self) -> Call:
        """The call as its first request has it."""
        return self.model_copy(update={"pending": None, "answers": {}})


def digest_of(key: str, question: types.InputRequest) -> str:
    """Of a question: its key, and what the user is shown."""
    shown = f"{key}\n{question.model_dump_json(by_alias=True, exclude_none=True)}"
    return hashlib.sha256(shown.encode()).hexdigest()


def write(path: Path, call: Call) -> None:
    """Write a call to a file of its own.

    Raises:
        CannotKeep: The file cannot be written.
    """
    try:
        text = call.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n"
    except ValueError as error:
        raise CannotKeep(f"cannot write {path}: the call holds what is no JSON") from error
    if len(text.encode()) > MAX_BYTES:
        raise CannotKeep(
            f"cannot write {path}: the call is too long; it may take at most {MAX_BYTES} bytes"
        )
    try:
        # A new file, put in place when it is complete: never open to others, never half written.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            new = Path(folder, "new")
            new.touch(mode=0o600)
            new.write_text(text, encoding="utf-8")
            new.replace(path)
    except OSError as error:
        raise CannotKeep(f"cannot write {path} ({error.strerror}); name another file") from error


def read(path: Path) -> Call:
    """Read what `write` wrote.

    Raises:
        CannotKeep: It cannot be read, or holds something else.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
        return Call.model_validate_json(text if len(text) <= MAX_BYTES else b"")
    except OSError as error:
        raise CannotKeep(f"cannot read {path} ({error.strerror}); name the file of a call") from error
    except ValidationError as error:
        raise CannotKeep(f"{path} does not hold an interrupted call; name another file") from error


class CallFolder:
    """Keeps calls in a folder, each in a file of its own.

    Args:
        path: The folder; made if it is not there.

    Raises:
        CannotKeep: It cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CannotKeep(f"{path} cannot be a folder ({error.strerror}); name another") from error

    def __iter__(self) -> Iterator[Call]:
        """The calls that have not ended, oldest first, without what is no call."""
        found: list[Call] = []
        for path in self._path.glob("*.json"):
            try:
                found.append(read(path))
            except CannotKeep as error:  # it must not hide the others; or its call has just ended
                if path.exists():
                    _logger.warning("a kept call is left out: %s", error)
        return iter(sorted(found, key=lambda call: call.key))  # a key begins with its time

    def get(self, key: str) -> Call | None:
        """The call with a key; None if none is kept.

        Raises:
            CannotKeep: Its file cannot be read, or holds something else.
        """
        path = self._file(key)
        return read(path) if path.exists() else None

    def keep(self, call: Call) -> None:
        """Keep how a call stands."""
        write(self._file(call.key), call)

    def forget(self, call: Call) -> None:
        """Keep a call no longer."""
        self._file(call.key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._path / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
