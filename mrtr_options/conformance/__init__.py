"""The official conformance suite as referee: its fixtures in every style, and the runner.

A *style* is an option's stand-in with the suite's fixture tools written for it: `style_<letter>.py`.
Knows the stand-ins in `sdk`, the shared server and the client; nothing of the review.
"""
