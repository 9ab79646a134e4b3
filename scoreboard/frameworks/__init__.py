"""What frameworks of others do with a tool that pauses for a person (`make scoreboard`).

Knows the package.
"""
