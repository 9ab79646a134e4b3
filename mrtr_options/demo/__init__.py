"""Options as a person meets them: one option round by round, the tour, the diff."""
