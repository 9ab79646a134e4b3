"""The weather tool: domain, ledger, shared server and settings; and the catalogue of options."""
