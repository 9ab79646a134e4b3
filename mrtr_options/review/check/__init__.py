"""The review of one proposal: its cases, its findings, its risks, and the report of them."""
