"""Mutant of E: the state is encoded, and neither signed nor sealed.

Seen in nearly every first version: base64 looks opaque, and no test changes it.
"""

from __future__ import annotations

import base64

from mcp.server.request_state import InvalidRequestState

from mrtr_options import option_e_mrtr_native as option_e
from mrtr_options.judge.mutants import protect
from mrtr_options.tool.server import build_server


class Base64Codec:
    """Tokens that anyone can write."""

    def seal(self, payload: bytes) -> str:
        """Encode."""
        return base64.urlsafe_b64encode(payload).decode()

    def unseal(self, token: str) -> bytes:
        """Decode."""
        try:
            return base64.urlsafe_b64decode(token)
        except ValueError as error:
            raise InvalidRequestState("malformed") from error


BREAKS = "state-is-genuine"

server = build_server("weather-e", option_e.call_weather)
protect(server, codec=Base64Codec())
