"""The official conformance suite as referee: its fixture tools in the style of each option.

`fixtures` is what the suite's tools ask, as data; `styles` and `tasks` answer the suite in the way of
each option; `__main__` starts the servers and runs the suite's own runner. What is kept of it is read by
`scoreboard.conformance.report`. Knows the stand-ins in `sdk` and the shared server, no review.
"""
