"""stub to be written"""

from __future__ import annotations


def demo(path: str) -> None: ...
