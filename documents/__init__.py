"""What writes README's tables, docs/ and the page: from runs, and from what is kept of them. Knows
the package.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The folder of the repository."""
