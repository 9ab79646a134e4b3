"""What servers of others do under the same review (`make scoreboard`). Knows the package."""
