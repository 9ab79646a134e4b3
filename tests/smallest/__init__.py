"""The smallest inputs that once did harm, one function each; `tests.smallest_inputs` plays them.

Knows the package by its public names, so that the same files play on an older package.
"""
