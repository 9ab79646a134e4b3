"""How a multi-round tool call is delivered, as a model whose every reachable state is searched.

One user makes one call of three rounds (request, first answer, second answer), and may want a
second call when the first is done. A client makes at most two attempts. Two instances serve.

Messages are a set that only grows: a repeat, a delay and a reordering are a message taken again or
later, and a loss is one that is never taken. An instance may crash whenever it likes. So a search
of all states covers any number of losses, repeats, delays and crashes.

Read `world` first, then `client`, `network`, one mechanism, `reading`. `search` is general.
`extras` says what else may happen: states that are too old, redeploys, effects that fail, answers
that change or come early, other calls, a client that dies, a server that forgets.
"""
