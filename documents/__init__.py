"""Generates README's tables, docs/ and the page, from runs and from kept results.

Knows the package and the scoreboards.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the repository."""
