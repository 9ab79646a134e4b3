"""The stand-ins are machinery in memory: their tests run on both event loops."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """asyncio and trio, one after the other."""
    return request.param
