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
    OLD: "MRTR, Server Requirements 5: a server puts a time into the state, and refuses an old one.",
    REDEPLOY: "Base protocol, Statelessness: no request relies on an earlier one's instance.",
    FAIL: "Tools, Error Handling: a tool reports that it failed, and the client may try again.",
    BACK: "MRTR: measures that protect a state 'do not by themselves guarantee single-use'.",
    EARLY: "MRTR: `inputResponses` is a field of every request, the first one too.",
    SAME_USER: "No sentence forbids a user to have two calls open.",
    OTHER_USER: "MRTR, Server Requirements 5: a state is bound to its user, so as to 'prevent"
    " cross-user and cross-request reuse'.",
    DIES: "MRTR: the client holds the state between requests; nothing says for how long.",
}
"""What else may happen, and why it may."""

ANY_TIME = "forgets at any time"
WHEN_TOLD = "forgets when told"
BELOW_MARK = "forgets when told, keeps a mark"
WHEN_OLD = "forgets when too old"

FORGETTING = (ANY_TIME, WHEN_TOLD, BELOW_MARK, WHEN_OLD)
"""When a server may forget a call: rules for mechanisms that keep a record."""
