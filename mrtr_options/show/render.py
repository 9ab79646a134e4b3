"""The notebooks as pages that open in a browser: `python -m mrtr_options.show.render` (`make review`).

Everything is inside the pages, and their security policy forbids them to ask for anything else.
Shows what the notebooks keep; with `--execute` they are executed first, and kept.
Knows what a notebook file looks like; nothing of what is in one.
"""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from markdown_it import MarkdownIt
from pygments import highlight, lexers
from pygments.formatters import HtmlFormatter

from mrtr_options.judge.matrix import progress
from mrtr_options.show.notebooks import CannotExecute, Notebook, all_notebooks, execute, keep, read
from mrtr_options.show.terminal import Parser, refuse

FOLDER = Path("build") / "review"

_FORMATTER: Any = HtmlFormatter[str](nowrap=True)
_LEXERS: dict[str, Any] = {
    name: cast("Any", lexers).get_lexer_by_name(name) for name in ("python", "diff")
}

_STYLE = """
body { margin: 0 auto; max-width: 60rem; padding: 1rem; font: 16px/1.5 sans-serif; color: #1a1a1a }
nav { border-bottom: 1px solid #ccc; padding-bottom: .5rem }
nav a { margin-right: 1.5rem }
img { max-width: 100% }
pre { background: #f6f6f6; padding: .6rem .8rem; overflow-x: auto; font-size: 13px; line-height: 1.4 }
code { font-size: .9em }
.table { overflow-x: auto }
table { border-collapse: collapse; font-size: 14px; margin: .8rem 0 }
th, td { border: 1px solid #ddd; padding: .2rem .6rem; text-align: left; vertical-align: top }
th { background: #f6f6f6 }
.shown { margin: .8rem 0 1.6rem }
"""


def page(title: str, body: str, pages: Sequence[tuple[str, str]]) -> str:
    """One page.

    Args:
        title: Its title.
        body: In HTML.
        pages: (file, title) of every page, for the links at the top.
    """
    links = " ".join(f'<a href="{file}">{html.escape(name)}</a>' for file, name in pages)
    colours: str = _FORMATTER.get_style_defs("pre")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:;'
        " style-src 'unsafe-inline'\">\n"
        f"<title>{html.escape(title)}</title>\n<style>{_STYLE}{colours}</style>\n</head>\n"
        f"<body>\n<nav>{links}</nav>\n{body}\n</body>\n</html>\n"
    )


def title_of(notebook: Notebook) -> str:
    """The notebook's heading."""
    found = re.search(r"^# (.*)", "".join(notebook["cells"][0]["source"]))
    return found[1] if found else "A notebook"


def opening(notebook: Notebook) -> str:
    """The first paragraph, in Markdown."""
    return "".join(notebook["cells"][0]["source"]).split("\n\n")[1]


def body_of(notebook: Notebook) -> str:
    """A notebook's cells in HTML: text, code, and what it shows."""
    parts: list[str] = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(markdown(source))
        else:
            parts.append(f"<pre>{_highlighted(source, 'python')}</pre>")
            parts += [f'<div class="shown">{_shown(output)}</div>' for output in cell["outputs"]]
    return "\n".join(parts)


def _shown(output: dict[str, Any]) -> str:
    data: dict[str, Any] = output.get("data", {"text/plain": output.get("text", "")})
    text = "".join(data.get("text/plain", ""))
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="{html.escape(text)}" src="data:image/png;base64,{picture}">'
    if "text/markdown" in data:
        return markdown("".join(data["text/markdown"]))
    return f"<pre>{html.escape(text)}</pre>"


def markdown(text: str) -> str:
    """Markdown in HTML, with tables; HTML in it is shown as it stands."""
    renderer = MarkdownIt("commonmark", {"html": False, "highlight": _fenced}).enable("table")
    made = renderer.render(text)
    return made.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")


def _fenced(source: str, language: str, _: str) -> str:
    return f"<pre>{_highlighted(source, language)}</pre>"


def _highlighted(source: str, language: str) -> str:
    lexer = _LEXERS.get(language)
    return highlight(source, lexer, _FORMATTER) if lexer else html.escape(source)


def render(notebooks: Sequence[Path], folder: Path) -> list[Path]:
    """Write a page for each notebook, and one that leads to them; returns all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {path: read(path) for path in notebooks}
    titles = {path: title_of(notebook) for path, notebook in found.items()}
    pages = [("index.html", "The review"), *((f"{p.stem}.html", name) for p, name in titles.items())]
    entries = [
        f'<h2><a href="{path.stem}.html">{html.escape(titles[path])}</a></h2>\n'
        + markdown(opening(notebook))
        for path, notebook in found.items()
    ]
    bodies = ["<h1>The review, as pictures</h1>\n" + "\n".join(entries), *map(body_of, found.values())]
    written: list[Path] = []
    for (file, title), body in zip(pages, bodies, strict=True):
        written.append(folder / file)
        written[-1].write_text(page(title, body, pages), encoding="utf-8")
    return written


def main(argv: Sequence[str] | None = None) -> int:
    """Render, and say where; the exit code."""
    parser = Parser(
        prog="python -m mrtr_options.show.render",
        description="The notebooks as pages that open in a browser.",
        allow_abbrev=False,
    )
    parser.add_argument("--execute", action="store_true", help="execute the notebooks first; minutes")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help=f"instead of {FOLDER}")
    args = parser.parse_args(argv)
    notebooks = all_notebooks()
    if not notebooks:
        refuse("there are no notebooks beside this package; run it in a clone of the repository")
    if args.execute:
        with progress(quiet=False) as bar:
            task = bar.add_task("notebooks", total=len(notebooks))
            for path in notebooks:
                try:
                    keep(path, execute(path))
                except CannotExecute as error:
                    bar.stop()
                    refuse(str(error))
                bar.advance(task)
    try:
        written = render(notebooks, args.to)
    except OSError as error:
        refuse(f"cannot write to {args.to}: {error.strerror}")
    print(written[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
