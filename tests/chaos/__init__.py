"""Fleets under disasters (`make chaos`). Knows the package."""
