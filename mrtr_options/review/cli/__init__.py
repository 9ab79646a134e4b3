"""The commands, one module each: `python -m mrtr_options NAME` runs the module with that name.

A module begins with the sentence that help shows; `add_arguments(parser)` says what the command
takes, and `run(args)` does it and returns the exit code. Commands know every part of the package,
and import it when they run: the SDK alone takes a second or two.
"""
