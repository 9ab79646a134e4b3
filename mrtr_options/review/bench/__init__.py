"""The bench: it plays a call and records it.

A `scenario` says what is to be played: by whom, where, and what goes wrong, as `faults`
or as a script of `steps`; `schedules` are those with names. `run` plays one on a subject. What a
run needs is in folders:

- `deployments`: where a run is made, in memory, in processes, or at a URL. `world` has what is
  around it: processes, clocks, sessions, databases, and the ledger of effects.
- `faults`: what goes wrong, a function for each kind. `situations`: when a kind cannot happen.
  `attacks`: forged states.
- `client`: who calls: one request on the wire, the usual client, and the player of scripts.
  `policies`: what the usual client does after a loss, a function for each.
- `history`: what is recorded, and how it is told.
"""
