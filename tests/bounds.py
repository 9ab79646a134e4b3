"""How long tests wait: one bound for all. It is there to end what hangs, not to time anything."""

SECONDS = 240.0
"""Longer than anything under test takes, also on a machine that is busy with other work."""

KEY = "cd8e9ab5b7b2a13e1b7b8f2b2f1f3a6a47a2d0f5cbb1d7e7f0a8c6e4d2b09f17"
"""A state key, for processes that share one."""
