"""The bench: it plays a call and records it.

A `scenario` says what is to be played: by whom, where (`setup`), and what goes wrong, as `faults`
or as a script of `steps`; `schedules` are those with names. `run` plays one on a subject. What a
run needs is in folders:

- `deployments`: where a run is made, in memory, in processes, or at a URL. `world` has what is
  around it: processes, clocks, sessions, databases, and the ledger of effects.
- `faults`: what goes wrong, a function for each kind. `attacks`: forged states.
- `client`: who calls: one request on the wire, the default client, and the player of scripts.
- `history`: what is recorded, and how it is told.
"""
