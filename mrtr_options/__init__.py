"""Every serious way to write a multi-round MCP tool, side by side and measured."""

import sys

if sys.argv[:1] == ["-m"]:  # `python -m` is about to start a program of this package
    from mrtr_options.show.program import begin

    begin()
