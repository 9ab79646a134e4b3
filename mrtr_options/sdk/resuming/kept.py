"""What a client keeps of a call that has not ended, and where.

Whoever has it can go on with the call, so a file can be read by its owner only. Knows MCP's types.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import mcp_types as types
from pydantic import BaseModel, Field, ValidationError

from mrtr_options.sdk.call_key import CALL, new_call_key

MAX_BYTES = 16 * 2**20
"""How long the file of a call may be."""

_logger = logging.getLogger(__name__)


class CannotKeep(Exception):
    """A call cannot be written or read. The text is one line that names the file.

    Attributes:
        call: What a client could not keep: how its call stands.
    """

    call: KeptCall | None = None


class KeptCall(BaseModel):
    """A call between two rounds: all that is needed to go on.

    Attributes:
        server, principal: Whose it is: the host's names for the server and for the account there.
        tool, arguments: What is called; every round sends them again.
        key: The call key.
        called_before: Whether the host gave the key, so that a call under it may have happened
            before.
        name: The server's name for the call, where it gave one.
        begun: Whether the first request was sent, perhaps.
        pending: What the last response asked, with the state to carry back unread; None before it.
        answers: What was answered to that.
        said: Every answer of the call, by a digest of the question.
    """

    server: str
    principal: str
    tool: str
    arguments: dict[str, Any] | None = None
    key: str = Field(default_factory=new_call_key)
    called_before: bool = False
    name: Any = None
    begun: bool = False
    pending: types.InputRequiredResult | None = None
    answers: types.InputResponses = Field(default_factory=dict[str, types.InputResponse])
    said: types.InputResponses = Field(default_factory=dict[str, types.InputResponse])

    @property
    def whose(self) -> tuple[str, str]:
        """The server and the principal."""
        return self.server, self.principal

    @property
    def open(self) -> dict[str, types.InputRequest]:
        """The questions that have no answer yet, by key."""
        asked = (self.pending and self.pending.input_requests) or {}
        return {key: request for key, request in asked.items() if key not in self.answers}

    def asked(self, pending: types.InputRequiredResult) -> KeptCall:
        """The call after a response that asks."""
        name = self.name or (pending.meta or {}).get(CALL)
        return self.model_copy(
            update={"begun": True, "pending": pending, "answers": {}, "name": name}
        )

    def answered(self, key: str, answer: types.InputResponse) -> KeptCall:
        """The call after an answer to one of its open questions."""
        question = digest_of(key, self.open[key])
        return self.model_copy(
            update={
                "answers": {**self.answers, key: answer},
                "said": {**self.said, question: answer},
            }
        )

    def from_the_beginning(self) -> KeptCall:
        """The call as its first request has it."""
        return self.model_copy(update={"pending": None, "answers": {}})


def digest_of(key: str, question: types.InputRequest) -> str:
    """Of a question: its key, and what the user is shown."""
    shown = f"{key}\n{question.model_dump_json(by_alias=True, exclude_none=True)}"
    return hashlib.sha256(shown.encode()).hexdigest()


@contextmanager
def _saying(what: str, instead: str = "name another") -> Generator[None]:
    """Say in one line what the system refuses, and what to do."""
    try:
        yield
    except OSError as error:
        raise CannotKeep(f"{what} ({error.strerror}); {instead}") from error


def write(path: Path, call: KeptCall) -> None:
    """Write a call to a file of its own.

    Raises:
        CannotKeep: The file cannot be written.
    """
    try:
        text = call.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n"
    except ValueError as error:
        raise CannotKeep(
            f"cannot write {path}: the call holds something that is not JSON"
        ) from error
    if len(text.encode()) > MAX_BYTES:
        raise CannotKeep(
            f"cannot write {path}: the call is too long; it may take at most {MAX_BYTES} bytes"
        )
    # A new file, put in place when it is complete: never open to others, never half written.
    with _saying(f"cannot write {path}"), tempfile.TemporaryDirectory(dir=path.parent) as folder:
        new = Path(folder, "new")
        new.touch(mode=0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(path)


def read(path: Path) -> KeptCall:
    """Read what `write` wrote.

    Raises:
        CannotKeep: It cannot be read, is not one's own, or holds something else.
    """
    with _saying(f"cannot read {path}", "name the file of a call"), path.open("rb") as file:
        _check_own(path, os.fstat(file.fileno()))
        text = file.read(MAX_BYTES + 1)
    try:
        return KeptCall.model_validate_json(text if len(text) <= MAX_BYTES else b"")
    except ValidationError as error:
        raise CannotKeep(f"{path} does not hold an interrupted call; name another file") from error


def _check_own(path: Path, found: os.stat_result) -> None:
    """Refuse what others can write: whoever writes a call has this user make it."""
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CannotKeep(f"{path} is not yours alone: others own it or may write it; name another")


def _locked(path: Path) -> IO[str]:
    while True:
        file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samefile(file.fileno(), path):
                return file
        except FileNotFoundError:
            pass  # who had it has removed it
        except BlockingIOError as error:
            file.close()
            raise CannotKeep(f"the call of {path.stem} is in use; try again later") from error
        except OSError:
            file.close()
            raise
        file.close()


class CallFolder:
    """Keeps calls in a folder, each in a file of its own: what `Unanswered.call` has of a call.

    Args:
        path: The folder; made if it is not there.

    Raises:
        CannotKeep: It cannot be made, or others may write in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _saying(f"{path} cannot be a folder"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_own(path, path.stat())

    def __iter__(self) -> Iterator[KeptCall]:
        """The calls that have not ended, oldest first, without what is no call."""
        found: list[KeptCall] = []
        for path in self._path.glob("*.json"):
            try:
                found.append(read(path))
            except CannotKeep as error:  # it must not hide the others; or its call has just ended
                if os.path.lexists(path):
                    _logger.warning("a kept call is left out: %s", error)
        return iter(sorted(found, key=lambda call: call.key))  # a key begins with its time

    def get(self, key: str) -> KeptCall | None:
        """The call with a key; None if none is kept.

        Raises:
            CannotKeep: Its file cannot be read, or holds something else.
        """
        path = self._file(key)
        return read(path) if os.path.lexists(path) else None

    def keep(self, call: KeptCall) -> None:
        """Keep how a call stands."""
        write(self._file(call.key), call)

    def forget(self, call: KeptCall) -> None:
        """Keep a call no longer.

        Raises:
            CannotKeep: Its file cannot be removed.
        """
        path = self._file(call.key)
        with _saying(f"cannot remove {path}", "remove it yourself"):
            path.unlink(missing_ok=True)

    @contextmanager
    def held(self, key: str) -> Generator[KeptCall | None]:
        """Have the call with a key to oneself in this block, as `get` gives it.

        Raises:
            CannotKeep: Somebody else has it, or the folder cannot be written.
        """
        path = self._file(key).with_suffix(".lock")
        with _saying(f"cannot write {path}", "name another folder"):
            file = _locked(path)
        with file:
            try:
                yield self.get(key)
            finally:
                with suppress(OSError):  # an empty file more, and it must not hide a result
                    path.unlink()

    def _file(self, key: str) -> Path:
        return self._path / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"
