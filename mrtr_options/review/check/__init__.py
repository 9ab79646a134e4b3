"""The review of one proposal: its cases, its breaches, its risks, and the report of them."""
