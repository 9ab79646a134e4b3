"""The pages of `make review`: everything is in them, and a browser asks for nothing else."""

from __future__ import annotations

import re
from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from mrtr_options.show.page.browser import NoBrowser, Tab, tab
from mrtr_options.show.review import all_notebooks, main, outputs, read, render

pytestmark = pytest.mark.slow

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
FOUND = """({
  images: [...document.images].map(image => image.naturalWidth),
  says: [...document.images].map(image => image.alt),
  code: [...document.querySelectorAll(".input")].map(each => each.checkVisibility()),
  tables: [...document.querySelectorAll("table")].map(table => table.rows.length),
  wide: document.documentElement.scrollWidth > innerWidth,
})"""
COMPLETE = "document.readyState === 'complete'"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    written = render(all_notebooks(), tmp_path_factory.mktemp("review"))
    return {page.stem: page for page in written}


class Links(HTMLParser):
    """Whatever a page may refer to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src", "srcset", "data")]


def test_a_page_refers_only_to_itself_and_to_the_pages_beside_it(pages: dict[str, Path]) -> None:
    for page in pages.values():
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        beside = {other.name for other in pages.values()} | {"index.html"}
        assert [
            link for link in links.found if link not in beside and not link.startswith("data:")
        ] == []
        assert POLICY.search(page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def browser() -> Generator[Tab]:
    """One browser for every page."""
    try:
        with tab() as found:
            yield found
    except NoBrowser:
        pytest.skip("needs a browser: apt-get install chromium")


def asked(browser: Tab, page: Path) -> list[str]:
    """Every address that a page asks for, but for itself and what is inside it."""
    browser.asked.clear()
    browser.open(page.as_uri(), COMPLETE)
    return [each for each in browser.asked if each != page.as_uri() and not each.startswith("data:")]


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_a_page_shows_its_pictures_and_tables_and_asks_for_nothing(
    path: Path, pages: dict[str, Path], browser: Tab
) -> None:
    assert asked(browser, pages[path.stem]) == []
    found = browser.run(FOUND)
    shown = [output["data"] for output in outputs(read(path))]
    assert len(found["images"]) == sum("image/png" in data for data in shown)
    assert all(width > 500 for width in found["images"])
    words = [data["text/plain"] for data in shown if "image/png" in data]
    assert [says.split() for says in found["says"]] == [each.split() for each in words]
    cells = [cell for cell in read(path)["cells"] if cell["cell_type"] == "code"]
    assert found["code"] == [not cell["outputs"] for cell in cells]
    assert len(found["tables"]) >= sum(
        "|---" in "".join(data.get("text/markdown", "")) for data in shown
    )
    assert all(rows > 1 for rows in found["tables"])
    assert not found["wide"]


def test_the_browser_would_tell_if_a_page_asked_for_something(
    pages: dict[str, Path], browser: Tab, tmp_path: Path
) -> None:
    text = POLICY.sub("", next(iter(pages.values())).read_text(encoding="utf-8"))
    page = tmp_path / "asks.html"
    page.write_text(text.replace("</body>", '<img src="http://127.0.0.1:9/x.png"></body>'))
    assert asked(browser, page) == ["http://127.0.0.1:9/x.png"]


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as caught:
        main(["--to", str(tmp_path / "file")])
    assert caught.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "cannot write to" in error


def test_the_command_says_where_the_pages_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--to", str(tmp_path)]) == 0
    written = capsys.readouterr().out.split()
    assert written == [str(tmp_path / f"{path.stem}.html") for path in all_notebooks()]
