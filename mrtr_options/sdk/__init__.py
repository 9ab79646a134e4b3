"""The stand-ins: what an SDK would have to ship for each option. They know `mcp` only."""
