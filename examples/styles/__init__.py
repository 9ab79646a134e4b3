"""Styles that ship elsewhere and behave like a letter of the options; see docs/CHOOSING.md."""
