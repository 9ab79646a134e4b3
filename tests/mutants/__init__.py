"""Broken options (`make mutants`), which the review must catch. Knows the package."""
