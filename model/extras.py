"""Extras: what else may happen, each an option of a search, with the text that allows it.

A search without extras has the states and transitions that it would have without this module.
"""

OLD = "states too old"
REDEPLOY = "redeploys"
FAIL = "failing effects"
BACK = "changed answers"
EARLY = "early answers"
SAME_USER = "second call at once"
OTHER_USER = "another user"
DIES = "client dies"

EXTRAS: dict[str, str] = {
    OLD: "MRTR, Server Requirements 5: servers SHOULD reject a state after its expiry lapses, and "
    "a user may take longer than that to answer.",
    REDEPLOY: 'MRTR, Basic Workflow: a retry needs no information "beyond what is directly present '
    'in the retry request", so an instance with newer code may take it.',
    FAIL: "Tools, Error Handling: a tool execution error is something that language models "
    '"can use to self-correct and retry".',
    BACK: 'MRTR, Server Requirements 5: integrity, principal and expiry "do not by themselves '
    'guarantee single-use", so one state may come with two answers.',
    EARLY: 'MRTR, Error Handling: the server SHOULD ignore any information in the responses "it '
    'does not recognize or need", so a client may send it.',
    SAME_USER: 'MRTR, Client Requirements 4: a client may send another request "in parallel".',
    OTHER_USER: "MRTR, Server Requirements 5: servers SHOULD reject a state that is "
    '"presented by a different principal", so they serve several.',
    DIES: "MRTR, Server Requirements 8: servers MUST NOT assume that clients will retry the "
    "original request.",
}
"""What else may happen, and the sentence that lets it."""

OF_ANY_CLIENT = (OLD, REDEPLOY, FAIL, BACK, EARLY, SAME_USER)
"""The extras that are searched for each client; the others ask more of a client or of a server."""

ANY_TIME = "forgets at any time"
WHEN_TOLD = "forgets when told"
BELOW_MARK = "forgets when told, keeps a mark"
WHEN_OLD = "forgets when too old"

FORGETTING = (ANY_TIME, WHEN_TOLD, BELOW_MARK, WHEN_OLD)
"""When a server may forget a call: rules for mechanisms that keep a record."""

Extras = frozenset[str]
NONE: Extras = frozenset()
