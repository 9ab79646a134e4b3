"""Fleets under disasters, and how soon they go on after an outage (`make chaos`). Knows the package."""
