"""The cost of each option, as ratios to a named baseline that was measured beside it in one run.

There is a module for each measurement: `calls` and `questions` over the `floor`, `http`, `parked`
calls, `engines` on an engine beside the `engine_by_hand`, the `guard`, and `lines`. They share
`timing`; `measure` runs all of them, and `python -m scoreboard.cost` is the command. `report` has
the figures and their table.
"""
