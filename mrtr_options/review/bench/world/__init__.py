"""The world around a run: processes, clocks, sessions, databases, and the ledger of effects."""
