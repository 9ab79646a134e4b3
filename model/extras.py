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
    OLD: 'MRTR, Server Requirements 5: a state SHOULD include "a short expiry".',
    REDEPLOY: "Base protocol, Statelessness: a request relies on nothing of another's instance.",
    FAIL: "Tools, Error Handling: a tool may fail, and its client may try again.",
    BACK: 'MRTR, Server Requirements 5: measures "do not by themselves guarantee single-use".',
    EARLY: "MRTR: the server SHOULD ignore any information it does not need.",
    SAME_USER: "No sentence forbids a user to have two calls open.",
    OTHER_USER: "MRTR: a state SHOULD include the authenticated principal; many have one server.",
    DIES: "MRTR: the client holds the state between requests; no sentence says how safely.",
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
