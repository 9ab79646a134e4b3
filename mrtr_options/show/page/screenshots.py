"""Pictures of the page, as a reader sees it on a large and on a narrow screen.

Knows the page's fragments and the browser.
"""

from __future__ import annotations

from pathlib import Path

from mrtr_options.show.page.browser import tab

WIDE, NARROW = 1400, 420

LOST = "#view=play&subjects=F,H&policy=retry&faults=lost3"

PICTURES = {
    "first-screen": (WIDE, False, "#"),
    "first-screen-dark": (WIDE, True, "#"),
    "player": (WIDE, False, LOST),
    "player-dark": (WIDE, True, LOST),
    "player-one": (WIDE, False, "#view=play&subjects=E&faults=lost3"),
    "diff": (WIDE, False, "#view=diff&left=E&right=F"),
    "costs": (WIDE, False, "#view=costs"),
    "first-screen-narrow": (NARROW, False, "#"),
    "player-narrow": (NARROW, False, LOST),
    "diff-narrow": (NARROW, False, "#view=diff&left=E&right=F"),
    "costs-narrow": (NARROW, False, "#view=costs"),
}
"""Each picture's width in pixels, whether it is dark, and what it shows."""


DRAWN = "[...document.querySelectorAll('.canvas')].every((each) => each.querySelector('svg'))"
"""Whether every diagram is there: each is drawn once its width is known."""


def take(page: Path, folder: Path) -> list[Path]:
    """Write each picture, as long as the page is.

    Raises:
        NoBrowser, PageFailed: It cannot be taken.
    """
    written: list[Path] = []
    with tab() as seen:
        for name, (width, dark, fragment) in PICTURES.items():
            seen.resize(width, 900, dark=dark)
            seen.open(page.resolve().as_uri() + fragment)
            seen.wait(DRAWN)
            seen.resize(width, seen.run("document.documentElement.scrollHeight"), dark=dark)
            file = folder / f"{name}.png"
            file.write_bytes(seen.picture())
            written.append(file)
    return written
