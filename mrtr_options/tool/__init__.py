"""The weather tool: its domain, ledger, shared server and settings, and the catalogue of options."""
