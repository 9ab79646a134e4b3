"""Broken options (`make mutants`): what the review and the tests must catch. Knows the package."""
