"""The pages of `make review`: everything is in them, and a browser asks for nothing else."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mrtr_options.show.review import all_notebooks, main, outputs, read, render
from tests.bounds import SECONDS

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = "not an origin"

POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
PROBE = """<script>addEventListener("load", () => {
  const images = [...document.images].map(image => image.naturalWidth);
  const tables = [...document.querySelectorAll("table")].map(table => table.rows.length);
  const asked = performance.getEntriesByType("resource").map(entry => entry.name);
  const wide = document.documentElement.scrollWidth > innerWidth;
  const found = document.createElement("script");
  found.type = "application/json"; found.id = "found";
  found.textContent = JSON.stringify({images, tables, asked, wide});
  document.head.append(found);
});</script>"""


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


def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs a browser to open the pages in: install one of {', '.join(BROWSERS)}")
    return found


def opened(page: Path, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What a browser makes of a page, and every address that the page asked for."""
    log = folder / f"{page.stem}-net.json"
    command = [
        browser(),
        "--headless",
        "--no-sandbox",  # as root there is none
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--virtual-time-budget=5000",
        f"--user-data-dir={folder / 'profile'}",
        f"--log-net-log={log}",
        "--dump-dom",
        page.as_uri(),
    ]
    # Ended by its own pid when the time is up.
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    found = re.search(r'id="found">(.*?)</script>', done.stdout, re.DOTALL)
    assert found, "the page's script did not run"
    return json.loads(found[1]), _requests(json.loads(log.read_text(encoding="utf-8")))


def _requests(log: dict[str, Any]) -> list[str]:
    """What pages asked the network for; a browser has business of its own, which has no origin."""
    begun = log["constants"]["logEventTypes"]["URL_REQUEST_START_JOB"]
    asked = [event.get("params", {}) for event in log["events"] if event["type"] == begun]
    return [params["url"] for params in asked if params.get("initiator", BROWSER) != BROWSER]


@pytest.fixture(scope="module")
def probed(pages: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages with a script in them that looks around, and without the policy that forbids it."""
    folder = tmp_path_factory.mktemp("probed")
    copies = {name: folder / page.name for name, page in pages.items()}
    for name, page in pages.items():
        text = POLICY.sub("", page.read_text(encoding="utf-8"))
        copies[name].write_text(text.replace("</head>", f"{PROBE}</head>"), encoding="utf-8")
    return copies


@pytest.mark.parametrize("path", all_notebooks(), ids=lambda path: path.stem)
def test_a_page_shows_its_pictures_and_tables_and_asks_for_nothing(
    path: Path, probed: dict[str, Path], tmp_path: Path
) -> None:
    found, asked = opened(probed[path.stem], tmp_path)
    shown = [output["data"] for output in outputs(read(path))]
    assert len(found["images"]) == sum("image/png" in data for data in shown)
    assert all(width > 500 for width in found["images"])
    assert len(found["tables"]) >= sum(
        "|---" in "".join(data.get("text/markdown", "")) for data in shown
    )
    assert all(rows > 1 for rows in found["tables"])
    assert not found["wide"]
    assert found["asked"] == []
    assert asked == []


def test_the_browser_would_tell_if_a_page_asked_for_something(
    probed: dict[str, Path], tmp_path: Path
) -> None:
    text = next(iter(probed.values())).read_text(encoding="utf-8")
    page = tmp_path / "asks.html"
    page.write_text(text.replace("</body>", '<img src="http://127.0.0.1:9/x.png"></body>'))
    found, asked = opened(page, tmp_path)
    assert found["asked"] == ["http://127.0.0.1:9/x.png"]
    assert asked == ["http://127.0.0.1:9/x.png"]


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
