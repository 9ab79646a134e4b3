"""The stand-ins are machinery in memory: their tests run on both event loops."""

from __future__ import annotations

from contextvars import ContextVar

import pytest

from mrtr_options.sdk import handlers


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """asyncio and trio, one after the other."""
    return request.param


@pytest.fixture(autouse=True)
def _protected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come from no server are taken for protected ones."""
    monkeypatch.setattr(handlers, "_protected", ContextVar("protected", default=True))
