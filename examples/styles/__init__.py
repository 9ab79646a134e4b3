"""Styles that ship elsewhere and behave like a letter (docs/results/CANDIDATES.md)."""
