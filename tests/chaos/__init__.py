"""Fleets of server processes under disasters (`make chaos`). Knows the package."""
