"""What each option costs, as ratios to a named baseline that was measured beside it in one run.

One module for each thing that is measured: `calls` and `questions` over the `floor`, `http`,
`parked` calls, `rounds` on an engine beside the `engine_by_hand`, the `guard`, and `lines`.
`timing` is what they share, `measure` all of it, and `python -m scoreboard.cost` the command.
`report` has the figures and their table.
"""
