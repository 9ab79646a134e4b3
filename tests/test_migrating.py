"""Tests of MIGRATING: the old tool and its three new forms, called by an old and a new client."""

import difflib
import runpy
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client
from mcp_types import ElicitResult

from mrtr_options.review.bench.client import MODES
from mrtr_options.review.bench.messages import Era
from mrtr_options.sdk.testing import call_as_client
from tests.commands import REPOSITORY

pytestmark = pytest.mark.anyio

FOLDER = REPOSITORY / "examples" / "booking" / "migrating"
FORMS = ("by_hand", "replayed", "continued")
PAGE = REPOSITORY / "docs" / "MIGRATING.md"


def loaded(name: str) -> SimpleNamespace:
    """Load a fresh server of a form."""
    return SimpleNamespace(**runpy.run_path(str(FOLDER / f"{name}.py")))


class User:
    """A user who takes the last choice of every form, or declines the second form."""

    def __init__(self, declines: bool = False) -> None:
        self.asked: list[str] = []
        self._declines = declines

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        if self._declines and len(self.asked) == 2:
            return ElicitResult(action="decline")
        ((name, field),) = params.requested_schema["properties"].items()
        return ElicitResult(action="accept", content={name: field["enum"][-1]})


async def call(module: SimpleNamespace, era: Era, user: User) -> str:
    """Play one call and return its text; an error begins with "error: "."""
    connect = partial(Client, module.server, mode=MODES[era], elicitation_callback=user)
    return await call_as_client("stops", connect, "book_table", {"guest": "Ada"})


ASKED = ["When?", "How will you leave the deposit for 20:30?"]


@pytest.mark.parametrize(
    ("name", "era"), [("before", "legacy"), *((name, era) for name in FORMS for era in MODES)]
)
async def test_each_form_asks_and_books_once(name: str, era: Era) -> None:
    module = loaded(name)
    user = User()
    assert await call(module, era, user) == "A table for Ada at 20:30."
    assert user.asked == ASKED
    assert module.booked == ["Ada at 20:30, voucher"]


async def test_a_new_client_breaks_the_old_form_aloud_and_the_careless_one_silently() -> None:
    before = loaded("before")
    user = User()
    assert (await call(before, "modern", user)).startswith("error: ")
    assert user.asked == []
    assert before.booked == []

    careless = loaded("careless")
    user = User()
    assert await call(careless, "modern", user) == "A table for Ada at 18:00."
    assert user.asked == []
    assert careless.booked == ["Ada at 18:00"]


def difference(name: str) -> str:
    """Return the changes of a form, as `diff -u` prints them."""
    files = [FOLDER / "before.py", FOLDER / f"{name}.py"]
    old, new = (file.read_text(encoding="utf-8").splitlines() for file in files)
    diff = difflib.unified_diff(old, new, files[0].name, files[1].name, n=2, lineterm="")
    return "\n".join(diff)


@pytest.mark.parametrize("name", FORMS)
def test_the_page_shows_each_difference(name: str) -> None:
    assert f"```diff\n{difference(name)}\n```" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("era", MODES)
@pytest.mark.parametrize("name", FORMS)
async def test_each_form_books_nothing_where_the_user_declines(name: str, era: Era) -> None:
    module = loaded(name)
    user = User(declines=True)
    told = await call(module, era, user)
    assert "'deposit' was declined" in told
    assert "error: " not in told
    assert user.asked == ASKED
    assert module.booked == []
