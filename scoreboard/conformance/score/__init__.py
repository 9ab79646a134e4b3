"""The official suite, measured as a test suite: which broken servers and clients it finds.

`requirements.toml`, one folder up, is the table: each sentence of the specification, the suite's
check for it, and a mutant that breaks it. `correct` is the server that is mutated, `mutants` are
its mutants; `client` is the same for clients. `__main__` runs the suite on each program, `table`
reads the kept results. Knows the specification and the suite; nothing of the options.
"""
