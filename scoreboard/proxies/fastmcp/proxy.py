"""FastMCP's proxy in front of a server: `proxy.py URL PORT KEY NAME`. KEY and NAME may be empty."""

import sys

from fastmcp.server import create_proxy
from mcp.server.request_state import RequestStateSecurity

url, port, key, name = sys.argv[1:]
settings = {}
if key:
    settings["request_state_security"] = RequestStateSecurity(keys=[key])
if name:
    settings["name"] = name
create_proxy(url, **settings).run(transport="http", port=int(port), show_banner=False)
