"""The names by which a server knows a call that is made again.

A client that got no response to a first request holds no state, so a server takes what it sends
next for another call. A name says that it is the same one. It comes, in this order, from

1. an *argument* that the author names: `call="reference"`; or a *function* of the author's over
   caller and arguments: `call=lambda caller, arguments: ...`;
2. the client's *call key*: made by the client, one for each call that its user means to make. It
   travels in the request's `_meta`, under `CALL_KEY`, with every request of the call: each delivery
   of the first one, the later rounds, and the first request of a host that calls again for the same
   intention. A server that does not know it ignores it.

The author's name comes first, since it says what the effect is about. A client that makes a new key
for the same reference would otherwise have the effect twice.

`CallNaming` is what an author says about it, and `CallNaming.name_of` the name of one request's
call. A name is bound to the server, the tool and the caller, and it is a digest: no name is longer
than another. A label keeps what names the call for who runs the server, unless that is a secret.

A call key is a UUID of version 7 (RFC 9562): 74 random bits, and the time at which it was made. The
time lets a server forget a key and still refuse it: a key is either remembered or too old. Two
clocks are compared for that, so a client whose clock is further off than a server remembers keys is
refused. A name that the server makes has no time of its own: once it is forgotten, it begins
another call.

A server that has forgotten a call begins another under its key. So it names each call, at random,
in the `_meta` of a question that answers a first request with a key (`CALL`): a client that is
given another name does not take the new call for the old one.

Without authentication a call key is a secret: who has it gets what its call was answered. An
argument is none: two strangers who send the same reference would share a call. So a server whose
callers are unknown is refused such names (`check_naming`), unless the author says that only one
caller can know the argument (`call_is_secret`).

A result that is handed out again says so: `as_repeat`.

Knows MCP's types. Used by the client (`client`), by the guard (`single_use`) and by the options
that can tell one call from another by themselves (`replay`, `durable`).
"""

from __future__ import annotations

import inspect
import json
import secrets
import time
import unicodedata
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import mcp_types as types
from mcp import MCPError
from mcp.server.auth.middleware.auth_context import get_access_token
from pydantic.fields import FieldInfo

from mrtr_options.sdk.capabilities import is_modern
from mrtr_options.sdk.current_request import check_arguments, request_here
from mrtr_options.sdk.handler import NAMES_CALLS, Context, HandlerT, Principal, refusal, why_not
from mrtr_options.sdk.reasons import Reason
from mrtr_options.sdk.writing import MAX_SHOWN_CHARS, argument_name, digest, plain

CALL_KEY = "mrtr-options/call-key"
"""The entry of `_meta` that holds the key."""
CALL = "mrtr-options/call"
"""The entry of a response's `_meta` that names the call which a first request with a key began."""
REPEAT = "mrtr-options/repeat"
"""The entry of a response's `_meta` that says that it is handed out again: `{"since": TIME}`, the
time of the first one in ISO 8601.
"""

_BECAME = {
    None: "That call is known, and may have been done.",
    "open": "That call waits for an answer of its user, or is at work.",
    "ended": "That call has ended, and its result is recorded.",
    "in doubt": "Nobody knows whether that call was done.",
}
"""What became of a call whose name comes with other arguments."""

CallFunction = Callable[[str | None, Mapping[str, Any]], object]
"""Names a call: given the caller (None if unknown) and the arguments. None for a call that has no
name.
"""
ResponseT = TypeVar("ResponseT", bound=types.Result)


@dataclass(frozen=True)
class CallKey:
    """The key of a request.

    Attributes:
        text: The key.
        made: When the client made it, in seconds since 1970 by its clock.
    """

    text: str
    made: float

    def call_of(self, principal: str | None, name: str) -> str:
        """Return the call's name, which no other server, tool or principal shares."""
        return _digest("key", self.text, principal, name)


@dataclass(frozen=True)
class CallName:
    """The name of a request's call.

    Attributes:
        handle: The name: 32 hexadecimal digits, the same for all first requests of the call.
        made: When the client made its call key, by its clock; None where the server named the call.
        source: What named it, for texts: "call key", "argument 'reference'" or "call's name".
        same: A digest of the arguments that a call made again must have, too.
        label: The call for who runs the server; None where its name is a secret.
    """

    handle: str
    made: float | None
    source: str
    same: str = field(default="", compare=False)
    label: str | None = field(default=None, compare=False)

    @property
    def is_key(self) -> bool:
        """Return whether the client made it."""
        return self.made is not None

    def other_arguments(self, became: str | None = None) -> MCPError:
        """Return the refusal of a request whose name came with other arguments before."""
        known = f"This {self.source} was used with other arguments before. {_BECAME[became]}"
        return refusal(Reason.CALL_REUSED, f"{known} Nothing was done now.")


@dataclass(frozen=True)
class CallNaming:
    """The author's naming of calls.

    Attributes:
        call: The argument whose value names a call, or a function of caller and arguments; None
            where only a call key does.
        call_is_secret: Whether only one caller can know what names a call, so that unknown callers
            share none.
        same: The arguments that a call made again must have, too; None for all.
        caller: Names whose calls share names; None for the principal that states are bound to.

    Raises:
        TypeError: `same` is one text; or `call` is neither an argument's name nor a function of two
            things.
    """

    call: str | CallFunction | None = None
    call_is_secret: bool = False
    same: Sequence[str] | None = None
    caller: Principal | None = None

    def __post_init__(self) -> None:
        if isinstance(self.same, str):
            raise TypeError('same=... takes the names of arguments, as in same=("amount", "to")')
        if isinstance(self.call, str):
            is_fit = bool(self.call)
        else:
            is_fit = self.call is None or why_not(self.call, (str, dict)) is None
            is_fit = is_fit and not inspect.iscoroutinefunction(self.call)
        if not is_fit:
            raise TypeError(
                'call=... takes the name of an argument, as in call="reference", or a function of'
                " caller and arguments, as in call=lambda caller, arguments:"
                f' arguments["reference"]; not {self.call!r}'
            )

    def name_of(
        self,
        ctx: Context,
        params: types.InputResponseRequestParams,
        caller: str | None,
    ) -> CallName | None:
        """Return the name of the call that a first request belongs to; None for a call without one.

        An argument that is absent, null or empty names no call. Nor does one of an unknown caller,
        unless it is secret: then the call key names the call.

        Args:
            ctx: The request.
            params: Its parameters.
            caller: Who sends it; None for an unknown caller.

        Raises:
            MCPError: -32602, it is not a call key; -32600, the name needs a caller, none is known,
                and there is no call key.
        """
        caller = (caller if self.caller is None else self.caller(ctx)) or None
        target = getattr(params, "name", None)
        if not isinstance(target, str):  # a resource has no arguments
            return None
        key = call_key_of(ctx, params)
        if self.call is None and key is None:
            return None
        arguments = arguments_as_read(params)
        same = self.digest_of(arguments)
        value = self._value_of(arguments, caller)
        names_a_call = value is not None and value != ""
        is_for_a_caller = caller is not None or self.call_is_secret
        if names_a_call and is_for_a_caller:
            handle = _digest("name", self._source, _as_text(value), caller, target)
            shown = f"{target} {printable(value)} ({printable(caller)})"
            label = None if self.call_is_secret else shown
            return CallName(handle, None, self._source, same, label)
        if key is not None:
            return CallName(key.call_of(caller, target), key.made, "call key", same)
        if names_a_call:
            raise refusal(Reason.CALLER_UNKNOWN)
        return None

    @property
    def _source(self) -> str:
        return f"argument {self.call!r}" if isinstance(self.call, str) else "call's name"

    def _value_of(self, arguments: dict[str, Any], caller: str | None) -> object:
        """Return the value that names the call. A function of the author may change arguments."""
        if self.call is None:
            return None
        if isinstance(self.call, str):
            return arguments.get(self.call)
        try:
            return self.call(caller, arguments)
        except Exception:
            check_arguments()
            raise

    def digest_of(self, arguments: Mapping[str, Any]) -> str:
        """Return a digest of the arguments that a call made again must have, too.

        Those that have their defaults do not count, nor does the way in which a value is written.
        """
        names = arguments.keys() - defaults_in(arguments)
        if self.same is not None:
            names &= set(self.same)
        said = {name: arguments[name] for name in names}
        if isinstance(self.call, str) and self.call in said:
            said[self.call] = _as_text(said[self.call])
        return digest(_canonical(said))


def subject_of(ctx: Context) -> str | None:
    """Name who calls by issuer and subject; None without a token, or where it has no subject.

    The SDK's own principal has the client's id in it, which changes when the client registers anew.
    """
    token = get_access_token()
    if token is None or token.subject is None:
        return None
    return json.dumps([(token.claims or {}).get("iss"), token.subject])


def naming_calls(handler: HandlerT, naming: CallNaming) -> HandlerT:
    """Return the handler itself, marked as one whose calls are named so."""
    vars(handler)[NAMES_CALLS] = naming
    return handler


def check_naming(
    tool: str, handler: object, arguments: Collection[str], *, knows_callers: bool
) -> None:
    """Refuse to build a server whose calls cannot be named as their author says.

    Args:
        tool: The tool's name.
        handler: Its handler, in all wrappers.
        arguments: The names of its arguments.
        knows_callers: Whether the server knows who calls.

    Raises:
        ValueError: No argument has this name; or unknown callers would share calls.
    """
    naming = getattr(handler, NAMES_CALLS, None)
    if not isinstance(naming, CallNaming):
        return
    known = ", ".join(arguments) or "none"
    if unknown := [each for each in naming.same or () if each not in arguments]:
        raise ValueError(f"same=... of {tool!r} names {unknown}, and its arguments are: {known}")
    if naming.call is None:
        return
    if isinstance(naming.call, str) and naming.call not in arguments:
        raise ValueError(
            f"calls of {tool!r} are named by its argument {naming.call!r}, and its arguments are:"
            f" {known}"
        )
    if not (knows_callers or naming.caller or naming.call_is_secret):
        raise ValueError(
            f"calls of {tool!r} are named by what a caller sends, and this server does not know its"
            " callers: two strangers would share a call. Write Settings(principal=...), or"
            " Settings(authenticated=True) where the app around the server authenticates; or"
            " call_is_secret=True where only one caller can know what names a call. On a server of"
            " your own, write sdk.protect(server, settings) before add_to"
        )


def new_call_key() -> str:
    """Make a key for a call."""
    milliseconds = int(time.time() * 1000)
    random = secrets.randbits(74)
    version = 0x7
    variant = 0b10
    high = random >> 62
    low = random & (1 << 62) - 1
    return str(uuid.UUID(int=milliseconds << 80 | version << 76 | high << 64 | variant << 62 | low))


def call_key_of(ctx: Context, params: types.InputResponseRequestParams) -> CallKey | None:
    """Return the key of a request.

    None for a request without one, and for one of an old client, which has a whole call in one
    request.

    Raises:
        MCPError: -32602, it is not a key.
    """
    text: object = (params.meta or {}).get(CALL_KEY)
    if text is None or not is_modern(ctx):
        return None
    if not isinstance(text, str):
        raise refusal(Reason.BAD_CALL_KEY)
    try:
        key = uuid.UUID(text)
    except ValueError:
        raise refusal(Reason.BAD_CALL_KEY) from None
    if key.version != 7 or str(key) != text:
        raise refusal(Reason.BAD_CALL_KEY)
    # The end of its millisecond: a store that was made within it is not newer than the key.
    return CallKey(text, ((key.int >> 80) + 1) / 1000)


def arguments_as_read(params: types.InputResponseRequestParams) -> dict[str, Any]:
    """Return the arguments of a request as its tool's model reads them, as JSON.

    As they were sent where no model has read them. `7` and `"7"` are one integer. What the model's
    serializers would write does not count.
    """
    read = request_here().arguments
    if read is None:
        return deepcopy(getattr(params, "arguments", None) or {})  # a function may change them
    try:
        return json.loads(json.dumps(plain(read)))
    except ValueError:  # Python reads and writes no more than some thousand digits
        why = "The arguments do not fit: a number is too long."
        raise MCPError(types.INVALID_PARAMS, why) from None


def defaults_in(arguments: Mapping[str, Any]) -> set[str]:
    """Return the arguments of this request that have their defaults, where a model has read them.

    Of an argument with another value every part counts, such as the word that tells its kind.
    """
    read = request_here().arguments
    if read is None:
        return set()
    default = {
        argument_name(name, field)
        for name, field in type(read).model_fields.items()
        if _are_one(vars(read).get(name), _default_of(field))
    }
    return arguments.keys() & default


def _are_one(value: object, default: object) -> bool:
    """Return whether a value is the default, also in JSON: there 0 is not False."""
    return value == default and _json_of(value) == _json_of(default)


def _json_of(value: object) -> str | None:
    """Return the JSON of a value; None if it has none by itself."""
    try:
        return _canonical(plain(value))
    except ValueError:
        return None


def _default_of(field: FieldInfo) -> Any:
    if field.default_factory is None or field.default_factory_takes_validated_data:
        return field.default
    return field.get_default(call_default_factory=True)


def _as_text(value: object) -> str:
    """Return the text of a value that names a call: a version may read 7 where one read "7"."""
    return _normal(value) if isinstance(value, str) else _canonical(value)


def _canonical(value: object) -> str:
    """Return a value's JSON, in one form for all that mean the same.

    The order of names makes no difference. 150 and 150.0 are one number. Text is in one form of
    Unicode: an accent is the same in one character and in two.
    """
    return _SORTING_ENCODER.encode(_normal(json.loads(_ENCODER.encode(value))))


def _normal(value: Any) -> Any:
    """Return a value of JSON with each text and each number in one form."""
    match value:
        case str():
            return unicodedata.normalize("NFC", value)
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_normal(each) for each in cast("list[Any]", value)]
        case dict():
            items = cast("dict[str, Any]", value).items()
            values = {name: _normal(each) for name, each in items}
            in_one_form = {_normal(name): each for name, each in values.items()}
            # Two names that differ in the form of Unicode alone are two.
            return in_one_form if len(in_one_form) == len(values) else values
        case _:
            return value


# Made once: json.dumps makes one for each use with settings.
_ENCODER = json.JSONEncoder(ensure_ascii=False)
_SORTING_ENCODER = json.JSONEncoder(sort_keys=True)


def as_repeat(response: ResponseT, since: float) -> ResponseT:
    """Return a recorded response that says that it is one.

    Args:
        response: The response. Its `_meta` gets the entry `REPEAT`.
        since: When the first one was, in seconds since 1970.
    """
    meta = {**(response.meta or {}), REPEAT: {"since": iso(since)}}
    return response.model_copy(update={"meta": meta})


def error_as_repeat(error: MCPError, since: float) -> MCPError:
    """Return a recorded error that says that it is one: `repeat.since` in its data.

    Data that is no object, or has a `repeat` of the author's, stays as it is.
    """
    data: Any = error.error.data
    if data is None or (isinstance(data, dict) and "repeat" not in data):
        data = {**cast("dict[str, Any]", data or {}), "repeat": {"since": iso(since)}}
    return MCPError(error.error.code, error.error.message, data)


def _digest(*parts: str | None) -> str:
    """Return a name of these parts, each as it is: two callers are two in any form of Unicode."""
    return digest(_SORTING_ENCODER.encode([*parts, request_here().server]))[:32]


def iso(seconds: float) -> str:
    """Return a time as ISO 8601 has it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def printable(value: object) -> str:
    """Return a value for a log line and a database: cut short, on one line, without NUL."""
    return repr(str(value))[1:-1][:MAX_SHOWN_CHARS]
