"""Results that are kept, with a digest of what they came from.

A digest covers what decides a result: the program that was run and its settings. It leaves out what
starts, watches and prints it.

`KeptFile` is one document, which commands may write at the same time. `KeptLines` has a line for
each result, so that a command that was interrupted goes on.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

Form = TypeVar("Form")


def digest_of(*parts: str | bytes | Path) -> str:
    """Return a digest of texts and of the contents of files."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, Path):
            found.update(part.read_bytes())
        else:
            found.update(part.encode() if isinstance(part, str) else part)
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class KeptFile(Generic[Form]):
    """Results in one JSON file.

    Args:
        path: The file.
        form: The type of the results.
    """

    path: Path
    form: type[Form]

    def read(self, otherwise: Form | None = None) -> Form:
        """Return the results, or these if the file is not there.

        Raises:
            OSError: The file cannot be read.
            ValueError: It has another form.
        """
        if otherwise is not None and not self.path.is_file():
            return otherwise
        return TypeAdapter(self.form).validate_json(self.path.read_bytes())

    def write(self, results: Form) -> None:
        """Replace the results."""
        self.path.write_bytes(TypeAdapter(self.form).dump_json(results, indent=1) + b"\n")

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock the file's folder for the block, so that commands that write at once lose nothing.

        The file need not be there yet, and is not made.
        """
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)


@dataclass(frozen=True)
class KeptLines:
    """Results in a file with a line of JSON for each."""

    path: Path

    def read(self) -> list[Any]:
        """Return the results, without half a line at the end, which a killed command left.

        Raises:
            OSError: The file cannot be read.
            ValueError: It has something else.
        """
        lines = self.path.read_bytes().splitlines(keepends=True) if self.path.exists() else []
        return [json.loads(line) for line in lines if line.endswith(b"\n")]

    def add(self, result: Any) -> None:
        """Add a result."""
        self.path.parent.mkdir(exist_ok=True)
        with self.path.open("a+b") as file:
            file.seek(0)
            whole = file.read()
            file.truncate(whole.rfind(b"\n") + 1)
            file.write(json.dumps(result, ensure_ascii=False).encode() + b"\n")
