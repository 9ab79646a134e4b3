"""Option L: `await ctx.elicit()` on a durable engine. The call lives in a database, not in a process.

`store` runs the rounds, `context` is what the handler sees, `messages` is what is recorded, `engine` is
DBOS in this process and `liveness` says which processes of a fleet are alive. Needs the extra `durable`:
a program that imports this without it, and does not catch the error, ends in one line that says so.
"""

import sys
from types import TracebackType

try:
    from mrtr_options.sdk.durable.context import CallAbandoned, DurableContext
    from mrtr_options.sdk.durable.engine import Engine, WrongDatabase
    from mrtr_options.sdk.durable.messages import Call
    from mrtr_options.sdk.durable.store import DurableStore
except ModuleNotFoundError as missing:
    if missing.name == "dbos":

        def _name_the_extra(
            kind: type[BaseException], error: BaseException, trace: TracebackType | None
        ) -> None:
            if isinstance(error, ModuleNotFoundError) and error.name == "dbos":
                need = "this needs the extra 'durable': pip install '.[durable]' in a checkout"
                print(f"mrtr-options: {need}", file=sys.stderr)
                sys.exit(2)
            sys.__excepthook__(kind, error, trace)

        sys.excepthook = _name_the_extra
    raise

__all__ = ["Call", "CallAbandoned", "DurableContext", "DurableStore", "Engine", "WrongDatabase"]
