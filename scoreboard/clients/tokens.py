"""A provider of tokens for the clients that stand on the Python SDK, by client credentials."""

from __future__ import annotations

from functools import partial
from typing import Any

from jobs import CREDENTIALS, Job
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider


class Tokens:
    """A store of tokens in memory."""

    token: Any = None

    async def get_tokens(self) -> Any:
        return self.token

    async def set_tokens(self, tokens: Any) -> None:
        self.token = tokens

    async def get_client_info(self) -> None:
        return None

    async def set_client_info(self, client_info: Any) -> None:
        pass


def auth_of(job: Job, *, names_issuer: bool = True) -> ClientCredentialsOAuthProvider | None:
    """Return what gets and renews the token of a job; None if its server needs none."""
    if job.issuer is None:
        return None
    provider = partial(
        ClientCredentialsOAuthProvider,
        job.url,
        Tokens(),
        CREDENTIALS["client_id"],
        CREDENTIALS["client_secret"],
    )
    return provider(issuer=job.issuer) if names_issuer else provider()
