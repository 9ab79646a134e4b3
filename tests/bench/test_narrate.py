"""Tests of the rows that tell a run: terminal, story and picture show the same rows."""

import pytest

from mrtr_options.demo.call import agreeable
from mrtr_options.review.bench.history.narrate import narrate
from mrtr_options.review.bench.run import run
from mrtr_options.review.bench.schedules import named
from mrtr_options.review.bench.subjects import subject_named
from mrtr_options.review.show.svg import is_drawn

pytestmark = pytest.mark.anyio


async def test_what_an_old_client_is_asked_goes_from_the_server_to_the_user() -> None:
    history = await run(subject_named("C"), named("clean-tokyo", "legacy"), user=agreeable)
    said = [row.label or row.text for row in narrate(history) if is_drawn(row)]
    assert said[2:4] == ["asks: Which units for Tokyo, Japan?", "answers metric"]
