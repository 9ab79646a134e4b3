"""The protection of states: signed or sealed, under a ring of keys, bounded in size.

The SDK's `RequestStateBoundary` binds every state to time, method, tool, arguments, audience and
principal. This module gives it a codec, and makes it the one middleware of a server: it opens the
`Request`, checks what comes in, tells of the round, and has a reason of its own for a state that is
too old. Knows the SDK's boundary, `handler`, `current_request` and `telemetry`, and nothing
of the tool.

Two codecs, one guarantee (a client cannot change the state) and one difference:

- *signed* (itsdangerous, HMAC-SHA256): the client can read it. For state that holds only what the
  client told us.
- *sealed* (the SDK's AES-256-GCM): the client cannot. Required as soon as a value of the server's
  own is in it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial

from itsdangerous import BadSignature, Signer
from itsdangerous.encoding import base64_decode, base64_encode
from mcp import MCPError
from mcp.server.context import CallNext, HandlerResult
from mcp.server.request_state import (
    AESGCMRequestStateCodec,
    InvalidRequestState,
    RequestStateBoundary,
    RequestStateCodec,
    RequestStateSecurity,
    authenticated_principal,
)
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from mcp_types.methods import INPUT_REQUIRED_METHODS, is_input_required, validate_client_request
from mcp_types.version import LATEST_MODERN_VERSION, is_version_at_least
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from mrtr_options.errors import UsageError
from mrtr_options.sdk.current_request import Request, current_request
from mrtr_options.sdk.handler import Context, Crashed, JsonObject, Principal, failure_of, refusal
from mrtr_options.sdk.reasons import Reason, data_of
from mrtr_options.sdk.telemetry import RoundLog, take_name, with_name

KEYS_VARIABLE = "MRTR_STATE_KEYS"
MIN_KEY_BYTES = 32
MIN_DISTINCT_BYTES = 16
"""Of 32 random bytes at least this many differ, but for one key in more than 10**12."""
MAX_TOKEN_BYTES = 16 * 1024
"""The longest state token, in bytes, that is accepted or handed out."""
_SURELY_FITS = 800
"""A length in characters; each is at most 12 bytes of JSON, and 16 of base 64."""

ANSWER_BY = "mrtr-options/answer-by"
"""The entry of a question's `_meta` that says until when its answer is taken: RFC 3339, in UTC.

A tool or a wrapper that takes it for a shorter time says so itself; the earliest counts.
"""

CLOCKS_DIFFER_SECONDS = 60.0
"""The most that the clock of the instance that handed out a state may be ahead; as in the SDK."""

_AGELESS = {"iat": 0, "exp": math.inf}
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=str)

_logger = logging.getLogger(__name__)
_SIGNED_PREFIX = b"s1."
_AT = "~"  # in no token
_MARK = b"at:"  # begins no payload

INSTANCE_VARIABLE = "MRTR_INSTANCE"
_INSTANCE = re.compile(r"[A-Za-z0-9_-]{1,32}")


class BadInstance(UsageError, ValueError):
    """The instance's name cannot be used. The text is one line that says what to do."""


class BadKeys(UsageError, ValueError):
    """The state keys cannot be used. The text is one line that says what to do."""


class SignedCodec:
    """A codec of tokens that anyone can read and only a holder of the key can write.

    Args:
        keys: The rotation ring, as in the SDK: the first signs, all verify. To rotate, roll out
            [old, new], then [new, old], then [new] after one time to live.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        ring = [hmac.digest(key, b"mrtr-options/request-state", "sha256") for key in keys]
        # It signs with the last key. Its defaults are SHA-1 and a derivation of its own.
        self._signer = Signer(ring[::-1], key_derivation="none", digest_method=hashlib.sha256)

    def seal(self, payload: bytes) -> str:
        return (_SIGNED_PREFIX + self._signer.sign(base64_encode(payload))).decode()

    def unseal(self, token: str) -> bytes:
        given = token.encode(errors="replace")
        signed = given.removeprefix(_SIGNED_PREFIX)
        try:
            body = self._signer.unsign(signed)
        except BadSignature as error:
            raise InvalidRequestState("signature") from error
        # The signer takes other spellings of a signature, too: padded, or with any last bits.
        signature = signed.rpartition(b".")[2]
        is_as_written = base64_encode(base64_decode(signature)) == signature
        if not is_as_written or not given.startswith(_SIGNED_PREFIX):
            raise InvalidRequestState("signature")
        return _b64decode(body)


class StateCodec:
    """A codec of tokens of a bounded length, with the names of the call and the instance in them.

    The name of the instance that hands a state out is in front of the token, for a balancer to
    read, and in the protected payload, so that a state has one spelling. The name of the request's
    call is in the payload alone; see `telemetry`.

    Args:
        codec: Protects the payload.
        instance: The name; see `instance_from_environment`. None to take names and put none.
    """

    def __init__(self, codec: RequestStateCodec, instance: str | None = None) -> None:
        self._codec = codec
        self._instance = instance

    def seal(self, payload: bytes) -> str:
        this = current_request.get()
        if this is not None:
            payload = with_name(payload, this)
        if self._instance is None:
            token = self._codec.seal(payload)
        else:
            token = self._instance + _AT + self._codec.seal(_marked(self._instance, payload))
        if len(token) > MAX_TOKEN_BYTES:
            if this is not None:
                this.is_too_long = True
            raise ValueError(f"a state of {len(token)} bytes; the most is {MAX_TOKEN_BYTES}")
        return token

    def unseal(self, token: str) -> bytes:
        if len(token) > MAX_TOKEN_BYTES:
            raise InvalidRequestState("too long")
        # One without a name is from before instances had names, or from one that has none.
        instance, at, rest = token.rpartition(_AT)
        payload = self._codec.unseal(rest)
        mark = _marked(instance, b"") if at else b""
        if not payload.startswith(mark) or (not at and payload.startswith(_MARK)):
            raise InvalidRequestState("another instance's name")
        payload = payload[len(mark) :]
        this = current_request.get()
        return payload if this is None else take_name(payload, this)


def _marked(instance: str, payload: bytes) -> bytes:
    return b"%b%b:%b" % (_MARK, instance.encode(errors="replace"), payload)


class AgingCodec:
    """A codec that leaves the age of a state to `ProtectedRounds`.

    That has a reason of its own for a state that is too old.

    Args:
        codec: Protects the payload.
        clock: Tells the time by which states age; see `Settings`.
    """

    def __init__(self, codec: RequestStateCodec, clock: Callable[[], float] | None = None) -> None:
        self._codec = codec
        self._clock = clock

    def seal(self, payload: bytes) -> str:
        if self._clock is not None:  # the SDK's boundary stamps a state by the system's time
            claims = json.loads(payload)
            ahead = self._clock() - time.time()
            claims |= {stamp: claims[stamp] + ahead for stamp in ("iat", "exp")}
            payload = json.dumps(claims, separators=(",", ":"), ensure_ascii=False).encode()
        return self._codec.seal(payload)

    def unseal(self, token: str) -> bytes:
        payload = self._codec.unseal(token)
        claims = json.loads(payload)
        now = time.time() if self._clock is None else self._clock()
        ahead = claims["iat"] - now
        if ahead > CLOCKS_DIFFER_SECONDS:
            _logger.error(
                "a state is refused that was made in %.0f s by the clock here: the clocks of two"
                " instances differ; Settings(clock=...) takes one that all of them follow",
                ahead,
            )
        is_in_time = ahead <= CLOCKS_DIFFER_SECONDS and now < claims["exp"]
        if is_in_time and self._clock is None:
            return payload
        if (this := current_request.get()) is not None:
            this.is_in_time = is_in_time
        return json.dumps(claims | _AGELESS).encode()


class ProtectedRounds(RequestStateBoundary):
    """The SDK's boundary around an `AgingCodec`, with all that a server of ours does of a request.

    It refuses a request of an older protocol version that carries a modern round, and one with a
    text that is no Unicode or a number out of range. A state that is too old is refused with a
    reason of its own if it would be accepted were it younger: it is genuine, for this very request,
    and this principal's. All others are refused as the SDK refuses them, whatever their age. A
    question says until when its answer is taken. An exception of the author's is an error without
    its text.

    Args:
        security: How states are protected.
        server: The server's name.
        clock: Tells the time by which states age; see `Settings`.
        is_ephemeral: Whether the boundary's key is of this process only.
        settings: The `Settings` that it was made of, to compare it with another one.

    Attributes:
        principal: Names the caller.
        ttl_seconds: How long a state is valid for.
    """

    def __init__(
        self,
        security: RequestStateSecurity,
        *,
        server: str | None = None,
        clock: Callable[[], float] | None = None,
        is_ephemeral: bool = False,
        settings: object = None,
    ) -> None:
        super().__init__(security, default_audience=server)
        self.settings = settings
        self.principal: Principal = security.bind_principal or authenticated_principal
        self.is_ephemeral = is_ephemeral
        self._server = server
        self.ttl_seconds = security.ttl
        self._clock = clock or time.time

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        _check_request(ctx)
        this = Request(self._server, self.principal, clock=self._clock)
        token = current_request.set(this)
        try:
            if ctx.method not in INPUT_REQUIRED_METHODS:
                return await call_next(ctx)
            with RoundLog(self._server, ctx.method, this) as log:
                log.result = await self._round(ctx, call_next, this)
                return log.result
        except (MCPError, ValidationError):
            raise  # of the parameters: `_round` has said what else is one
        except BaseException as raised:
            # The SDK's dispatcher for old clients would send them its text.
            error = failure_of(raised)
            _logger.exception("the handler of %r raised", ctx.method)
            raise Crashed from error
        finally:
            current_request.reset(token)

    async def _round(self, ctx: Context, call_next: CallNext, this: Request) -> HandlerResult:
        async def if_in_time(ctx: Context) -> HandlerResult:
            if not this.is_in_time:
                raise state_expired()
            return await call_next(ctx)

        if (ctx.params or {}).get("requestState") is None:
            this.begin_call()
        if is_version_at_least(ctx.protocol_version, LATEST_MODERN_VERSION):  # else none travels
            this.fits = partial(self._fits, ctx, this)
        try:
            return self._with_deadline(await super().__call__(ctx, if_in_time))
        except MCPError:
            if this.is_too_long:
                raise state_too_long() from None
            raise
        except ValidationError as error:
            validate_client_request(ctx.method, ctx.protocol_version, ctx.params)
            # The parameters fit, so it is of the author's own data. The SDK would blame the client.
            raise RuntimeError("the author's code raised a ValidationError") from error

    def _fits(self, ctx: Context, this: Request, state: str) -> bool:
        """Return whether a state is short enough to travel."""
        if len(state) <= _SURELY_FITS:
            return True
        try:
            self._seal(ctx, state)
        except MCPError:
            return False
        finally:
            this.is_too_long = False
        return True

    def _with_deadline(self, result: HandlerResult) -> HandlerResult:
        """Add to a question with a state until when its answer is taken."""
        if not is_input_required(result):
            return result
        if not isinstance(result, Mapping):
            result = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        if not result.get("inputRequests") or result.get("requestState") is None:
            return result
        until = datetime.fromtimestamp(int(self._clock() + self.ttl_seconds), UTC)
        meta: JsonObject = result.get("_meta") or {}
        deadline = until.isoformat().replace("+00:00", "Z")
        return {
            **result,
            "_meta": {**meta, ANSWER_BY: min(deadline, meta.get(ANSWER_BY, deadline))},
        }


def _check_request(ctx: Context) -> None:
    """Check a request before any code of the author's runs.

    Raises:
        MCPError: -32602; no state and no record could hold what the request says.
    """
    params = ctx.params or {}
    is_round = params.get("inputResponses") is not None or params.get("requestState") is not None
    if is_round and not is_version_at_least(ctx.protocol_version, LATEST_MODERN_VERSION):
        raise refusal(Reason.NOT_OF_THIS_VERSION)
    said = {name: value for name, value in params.items() if name != "requestState"}
    if _is_plain(said):
        return
    try:
        _ENCODER.encode(said).encode()
    except UnicodeEncodeError:
        raise refusal(Reason.NOT_UNICODE) from None
    except ValueError:
        raise refusal(Reason.NUMBER_OUT_OF_RANGE) from None


def _is_plain(said: JsonObject) -> bool:
    """Return whether a request holds only what JSON can; quickly, and False where it may not."""
    try:
        text = to_json(said)
    except PydanticSerializationError:
        return False
    return b"NaN" not in text and b"Infinity" not in text


def state_too_long(effects: Collection[str] = ()) -> MCPError:
    """Make the refusal of a round whose next state is too long to travel.

    Args:
        effects: The recorded effects of its call, which is in doubt then.
    """
    known = "The state of this call is too long to travel, so the call ends here."
    if effects:
        what = ", ".join(map(repr, effects))
        return refusal(Reason.INDETERMINATE, f"{known} It did something, or may have: {what}.")
    then = Reason.CALL_ENDED.meaning.then
    return refusal(Reason.TOO_LONG, known, then, code=INTERNAL_ERROR)


def state_expired() -> MCPError:
    """Make the refusal of a state that is the caller's own, and too old."""
    # The SDK's text, as for a state that is somebody else's.
    data = data_of(Reason.STATE_EXPIRED)
    return MCPError(INVALID_PARAMS, "Invalid or expired requestState", data)


def make_codec(keys: Sequence[bytes], *, sealed: bool, instance: str | None = None) -> StateCodec:
    """Make a codec of states over a ring of keys; the first key seals, all unseal."""
    return StateCodec(AESGCMRequestStateCodec(keys) if sealed else SignedCodec(keys), instance)


def make_record_codec(keys: Sequence[bytes]) -> RequestStateCodec:
    """Make a codec that seals what a server keeps in its own database.

    Its keys are derived: what it seals is no state.
    """
    return AESGCMRequestStateCodec(
        [hmac.digest(key, b"mrtr-options/records", "sha256") for key in keys]
    )


def read_without_key(token: str) -> bytes | None:
    """Return the payload of a token that any client can read; None if it is sealed."""
    signed = token.rpartition(_AT)[2].encode()
    if not signed.startswith(_SIGNED_PREFIX):
        return None
    body, _, _ = signed.removeprefix(_SIGNED_PREFIX).rpartition(b".")
    return _b64decode(body)


def new_key() -> bytes:
    """Make a fresh key, as text for an environment variable."""
    return secrets.token_hex(MIN_KEY_BYTES).encode()


def keys_from_environment() -> list[bytes] | None:
    """Read the ring in `MRTR_STATE_KEYS`, with commas and the signing key first; None if unset.

    Raises:
        BadKeys: A key is shorter than 32 bytes, repeats a few bytes, or is named twice.
    """
    text = os.environ.get(KEYS_VARIABLE, "")
    if not text:
        return None
    return check_keys([key.strip().encode() for key in text.split(",")])


def instance_from_environment() -> str | None:
    """Read the name of this instance in `MRTR_INSTANCE`, or None if unset.

    Raises:
        BadInstance: See `check_instance`.
    """
    name = os.environ.get(INSTANCE_VARIABLE) or None
    return None if name is None else check_instance(name)


def check_instance(name: str, source: str = INSTANCE_VARIABLE) -> str:
    """Return the name itself, if a balancer can read it.

    Raises:
        BadInstance: Not of 1 to 32 letters, digits, "_" and "-".
    """
    if not _INSTANCE.fullmatch(name):
        raise BadInstance(f"{source} must be 1 to 32 letters, digits, _ and -")
    return name


def check_keys(keys: Sequence[bytes], source: str = KEYS_VARIABLE) -> list[bytes]:
    """Return the ring itself, if it can be used.

    A key that is written in hex or base64 has the length of what it encodes.

    Raises:
        BadKeys: Empty, or a key is shorter than 32 bytes, repeats a few bytes, or is named twice;
            or this is not a list of bytes.
    """
    given: object = keys
    if isinstance(given, str | bytes) or not all(
        isinstance(each, bytes) for each in list[object](keys)
    ):
        raise BadKeys(f"{source} is a list of bytes, one entry for each key")
    if not keys:
        raise BadKeys(f"{source} needs at least one key")
    for number, key in enumerate(keys, start=1):
        secret = _decoded(key)
        distinct = len(set(secret))
        if len(secret) < MIN_KEY_BYTES:
            read = "" if secret is key else " when its hex or base64 is read"
            problem = f"has {len(secret)} bytes{read}, and needs {MIN_KEY_BYTES}"
        elif distinct < MIN_DISTINCT_BYTES:
            problem = f"is made of {distinct} different bytes, and needs {MIN_DISTINCT_BYTES}"
        else:
            continue
        raise BadKeys(
            f"key {number} of {source} {problem};"
            ' make one with: python -c "import secrets; print(secrets.token_hex(32))"'
        )
    if len(set(keys)) < len(keys):
        raise BadKeys(f"{source} names a key twice; each may be in the ring once")
    return list(keys)


def _decoded(key: bytes) -> bytes:
    """Decode a key in hex or base64; return any other key as it is."""
    with suppress(ValueError):
        return bytes.fromhex(key.decode())
    for alphabet in (b"+/", b"-_"):
        with suppress(ValueError):
            return base64.b64decode(key, altchars=alphabet, validate=True)
    return key


def _b64decode(body: bytes) -> bytes:
    try:
        return base64.b64decode(body + b"=" * (-len(body) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise InvalidRequestState("malformed") from error
