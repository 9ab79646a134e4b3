"""The time limit of all tests: it ends a test that hangs, and times nothing."""

SECONDS = 240.0
"""Longer than any code under test takes, also on a busy machine."""

KEY = "cd8e9ab5b7b2a13e1b7b8f2b2f1f3a6a47a2d0f5cbb1d7e7f0a8c6e4d2b09f17"
"""A state key that processes can share."""
