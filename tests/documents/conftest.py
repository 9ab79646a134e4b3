"""The page that is kept, and a browser without a network that shows it."""

import base64
import json
import zlib
from collections.abc import Generator

import pytest

from documents import ROOT
from mrtr_options.review.bench.messages import JsonObject
from tests.browser import Tab, tab

KEPT = ROOT / "docs" / "page" / "index.html"


@pytest.fixture(scope="session")
def kept() -> JsonObject:
    """Return the data of the page."""
    packed = KEPT.read_text(encoding="utf-8").partition('id="data">')[2].partition("</script>")[0]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


@pytest.fixture(scope="session")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Generator[Tab]:
    """Start the browser."""
    with tab(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest.fixture
def seen(opened: Tab) -> Generator[Tab]:
    """Open the page; it may complain of nothing, and ask for nothing but itself."""
    opened.complaints.clear()
    opened.asked.clear()
    opened.open(KEPT.as_uri())
    yield opened
    assert opened.complaints == []
    assert {address.partition("#")[0] for address in opened.asked} <= {
        KEPT.as_uri(),
        "about:blank",
    }
