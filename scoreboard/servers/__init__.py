"""Reviews of other people's servers (`make scoreboard`). Knows the package."""
