"""A client's record of a call that has not ended, and its folder.

Whoever has it can go on with the call, so a file can be read by its owner only. Knows MCP's types.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import stat
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import mcp_types as types
from pydantic import BaseModel, Field, ValidationError

from mrtr_options.sdk.call_key import CALL, new_call_key
from mrtr_options.sdk.handler import JsonObject
from mrtr_options.sdk.writing import digest

MAX_BYTES = 16 * 2**20
"""The longest file of a call."""

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
        server: Whose it is: the host's name for the server.
        principal: The host's name for the account there.
        tool: What is called.
        arguments: With what; every round sends them again.
        key: The call key.
        called_before: Whether the host gave the key, so that a call under it may have happened
            before.
        name: The server's name for the call, where it gave one.
        begun: Whether the first request was sent, perhaps.
        pending: What the last response asked, with the state to carry back unread; None before it.
        answers: What was answered to that.
        said: Every answer of the call, by a digest of the question.
        refused: Why the server refused the last round's state, if it did.
    """

    server: str
    principal: str
    tool: str
    arguments: JsonObject | None = None
    key: str = Field(default_factory=new_call_key)
    called_before: bool = False
    name: Any = None
    begun: bool = False
    pending: types.InputRequiredResult | None = None
    answers: types.InputResponses = {}
    said: types.InputResponses = {}
    refused: str | None = None

    @property
    def whose(self) -> tuple[str, str]:
        """Name the server and the principal."""
        return self.server, self.principal

    @property
    def open(self) -> types.InputRequests:
        """Return the questions that have no answer yet, by key."""
        asked = (self.pending and self.pending.input_requests) or {}
        return {key: request for key, request in asked.items() if key not in self.answers}

    def asked(self, pending: types.InputRequiredResult) -> KeptCall:
        """Return the call after a response that asks."""
        name = self.name or (pending.meta or {}).get(CALL)
        begun = self.model_copy(update={"begun": True, "name": name, "refused": None})
        return begun.model_copy(update={"pending": pending, "answers": {}})

    def answered(self, key: str, answer: types.InputResponse) -> KeptCall:
        """Return the call after an answer to one of its open questions."""
        question = digest_of(key, self.open[key])
        return self.model_copy(
            update={
                "answers": {**self.answers, key: answer},
                "said": {**self.said, question: answer},
            }
        )


def digest_of(key: str, question: types.InputRequest) -> str:
    """Tell questions apart by key and by what the user is shown."""
    shown = f"{key}\n{question.model_dump_json(by_alias=True, exclude_none=True)}"
    return digest(shown)


def as_json(arguments: dict[str, object]) -> JsonObject:
    """Return arguments as JSON carries them: a tuple becomes a list.

    Raises:
        ValueError: JSON cannot carry an argument, or would carry another value.
    """
    return {name: _value_as_json(name, value) for name, value in arguments.items()}


def _value_as_json(name: str, value: object) -> Any:
    check_text("the name of an argument", name)
    try:
        carried = json.loads(json.dumps(value, allow_nan=False))
        _check_texts(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"JSON cannot carry the argument {name!r}: {error}") from None
    return carried


def _check_texts(value: object) -> None:
    """Check every text of a value that has JSON's kinds, and that its keys are texts."""
    match value:
        case str():
            check_text("a text", value)
        case dict():
            for key, within in cast("dict[object, object]", value).items():
                check_text("a key", key)
                _check_texts(within)
        case list() | tuple():
            for within in cast("Sequence[object]", value):
                _check_texts(within)
        case _:
            pass


def check_text(what: str, text: object) -> None:
    """Check that something is a text of whole characters.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(text, str):
        raise ValueError(f"{what} is no text: {text!r}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has half of a surrogate pair: {text!r}") from None


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
    """Read a call that `write` stored.

    Raises:
        CannotKeep: It cannot be read, is not one's own, or holds something else.
    """
    with (
        _saying(f"cannot read {path}", "name the file of a call"),
        _opened(path, os.O_RDONLY) as file,
    ):
        _check_own(path, os.fstat(file.fileno()))
        text = file.read(MAX_BYTES + 1)
    try:
        return KeptCall.model_validate_json(text if len(text) <= MAX_BYTES else b"")
    except ValidationError as error:
        raise CannotKeep(f"{path} does not hold an interrupted call; name another file") from error


def _check_own(path: Path, found: os.stat_result) -> None:
    """Refuse a file that others can write: its writer could have this user make a call."""
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise CannotKeep(f"{path} is not yours alone: others own it or may write it; name another")


def _opened(path: Path, flags: int) -> IO[bytes]:
    """Open a regular file; anything else might keep its reader waiting.

    Raises:
        CannotKeep: It is a pipe, a device, ...
        OSError: The system refuses.
    """
    number = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, mode=0o600)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise CannotKeep(f"{path} is not a file; remove it, or name another")
    return os.fdopen(number, "rb" if flags == os.O_RDONLY else "r+b")


def _locked(path: Path) -> IO[bytes]:
    while True:
        with ExitStack() as opened:
            file = opened.enter_context(_opened(path, os.O_RDWR | os.O_CREAT))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise CannotKeep(f"the call of {path.stem} is in use; try again later") from error
            with suppress(FileNotFoundError):  # who had it may have removed it
                if os.path.samefile(file.fileno(), path):
                    opened.pop_all()
                    return file


class CallFolder:
    """A folder of stored calls, each in a file of its own: the content of `Unanswered.call`.

    Args:
        path: The folder; made if it is not there.

    Raises:
        CannotKeep: It cannot be made, or others may write in it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _saying(f"{path} cannot be a folder"):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check()

    def _check(self) -> None:
        """Check that the folder is still this user's alone.

        Raises:
            CannotKeep: It is gone, or others may write in it.
        """
        with _saying(f"{self._path} cannot be used", "name another folder"):
            _check_own(self._path, self._path.stat())

    def __iter__(self) -> Iterator[KeptCall]:
        """Return the calls that have not ended, oldest first, without what is no call.

        Raises:
            CannotKeep: Others may write in the folder.
        """
        self._check()
        found: list[KeptCall] = []
        for path in self._path.glob("*.json"):
            try:
                found.append(read(path))
            except CannotKeep as error:  # it must not hide the others; or its call has just ended
                if os.path.lexists(path):
                    _logger.warning("a kept call is left out: %s", error)
        return iter(sorted(found, key=lambda call: call.key))  # a key begins with its time

    def get(self, key: str) -> KeptCall | None:
        """Return the call with a key; None if none is kept.

        Raises:
            CannotKeep: Its file cannot be read, or holds something else; or others may write in the
                folder.
        """
        self._check()
        path = self._file(key)
        return read(path) if os.path.lexists(path) else None

    def keep(self, call: KeptCall) -> None:
        """Keep how a call stands.

        Raises:
            CannotKeep: Its file cannot be written, or others may write in the folder.
        """
        self._check()
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
        self._check()
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
        return self._path / f"{digest(key)[:32]}.json"


class Records:
    """A client's store of its calls: a folder, or nothing.

    Args:
        calls: The folder, or None.
    """

    def __init__(self, calls: CallFolder | None) -> None:
        self._calls = calls
        self._locks: dict[str, ExitStack] = {}

    def keep(self, call: KeptCall, *, sent: bool = False) -> None:
        """Keep how a call stands, before what is said next, or is `sent` next.

        Raises:
            CannotKeep: It cannot be kept. It has the call.
        """
        if self._calls is None:
            return
        try:
            self._calls.keep(call.model_copy(update={"begun": call.begun or sent}))
        except CannotKeep as error:
            error.call = call
            raise

    def forget(self, call: KeptCall) -> None:
        """Keep a call no longer."""
        if self._calls is not None:
            self._calls.forget(call)

    @contextmanager
    def held(self, key: str) -> Generator[KeptCall | None]:
        """Have the call with a key to oneself in a block; see `CallFolder.held`."""
        if self._calls is None:
            yield None
            return
        with ExitStack() as locks:
            kept = locks.enter_context(self._calls.held(key))
            self._locks[key] = locks
            try:
                yield kept
            finally:
                del self._locks[key]

    def hold_also(self, key: str, new: str) -> None:
        """Have a call that is held to oneself under a new key as well, until the block ends.

        Raises:
            CannotKeep: The folder cannot be written.
        """
        if self._calls is not None and key in self._locks:
            self._locks[key].enter_context(self._calls.held(new))
