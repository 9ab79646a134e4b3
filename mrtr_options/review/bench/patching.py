"""Stored changes to a file: unified diffs without line numbers, applied to the current file."""

from __future__ import annotations

import re


class CannotPatch(ValueError):
    """A diff that does not fit the text that it is to change. The text is one line."""


def patched(source: str, diff: str, name: str) -> str:
    """Apply changes as `diff -u` prints them, without line numbers.

    Args:
        source: The text to change.
        diff: The changes. A line that begins with "@@" starts another place.
        name: The name of the changes, for the error.

    Raises:
        CannotPatch: A place is not found exactly once.
    """
    for place in re.split(r"^@@.*\n", diff, flags=re.MULTILINE):
        lines = [line or " " for line in place.splitlines()]
        before = "".join(f"{line[1:]}\n" for line in lines if line[0] in " -")
        after = "".join(f"{line[1:]}\n" for line in lines if line[0] in " +")
        times = source.count(f"\n{before}")
        if times != 1:
            raise CannotPatch(f"{name} this is found {times} times, not once: {before!r}")
        source = source.replace(f"\n{before}", f"\n{after}")
    return source
