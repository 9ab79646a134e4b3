"""`python -m scoreboard` prints the first table; see `scoreboard.rounds`."""

import sys

from mrtr_options.terminal import run
from scoreboard.rounds import main

sys.exit(run(main))
