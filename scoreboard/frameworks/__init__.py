"""Reviews of other people's frameworks: a tool that pauses for a person (`make scoreboard`).

Knows the package.
"""
