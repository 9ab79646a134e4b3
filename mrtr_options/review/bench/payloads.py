"""Well-formed payloads that a careless server reads before it verifies a state.

A payload that runs as code writes one row into the ledger of the review: an effect that the
contract does not have. So a server that runs it is seen, and nothing else happens. Knows no
server.
"""

from __future__ import annotations

import json
import pickle
import zlib
from typing import Any

CODE = (
    "__import__('sqlite3').connect(__import__('os').environ['MRTR_LEDGER'], timeout=5,"
    ' isolation_level=None).execute("INSERT INTO effects (kind, subject, at)'
    " VALUES ('code', 'from a state that a client made up', '')\")"
)
"""An expression that writes a row, in the process of a server that the review runs."""

DEPTH = 3_000
"""The depth of a payload's lists: deeper than most readers go, and shorter than 16 KiB."""

INFLATED_BYTES = 8 * 2**20
"""The unpacked length of the payload that unpacks to far more than was sent."""

_CLAIM = {"place": "Springfield, Missouri"}


class _Runs:
    """An object whose pickle evaluates an expression when it is loaded."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return eval, (CODE,)


def _yaml() -> str:
    quoted = CODE.replace("'", "''")
    return f"!!python/object/apply:builtins.eval ['{quoted}']"


PAYLOADS: dict[str, bytes] = {
    "a pickle that runs code": pickle.dumps(_Runs(), protocol=2),
    "a pickle": pickle.dumps(_CLAIM, protocol=2),
    "YAML that runs code": _yaml().encode(),
    "YAML": b"place: Springfield, Missouri\n",
    "deep JSON": b"[" * DEPTH + b"]" * DEPTH,
    "JSON with a number of 4,000 digits": json.dumps(_CLAIM)[:-1].encode()
    + b', "at": '
    + b"9" * 4_000
    + b"}",
    "a small text that unpacks to much": zlib.compress(b" " * INFLATED_BYTES, 9),
}
"""The payloads, by their description."""
