"""Around the weather tool: domain, ledger, shared server, state protection, telemetry,
catalogue.
"""
