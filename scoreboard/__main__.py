"""`python -m scoreboard` prints the first table; see `scoreboard.rounds`."""

import sys

from scoreboard.rounds import main

sys.exit(main())
