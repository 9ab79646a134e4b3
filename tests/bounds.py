"""How long tests wait: one bound for all. It is there to end what hangs, not to time anything."""

SECONDS = 120.0
"""Longer than anything under test takes, also on a machine that is busy with other work."""
