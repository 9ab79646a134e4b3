"""FastMCP's proxy in front of a server: `proxy.py URL PORT KEY NAME SECONDS`.

KEY, NAME and SECONDS may be empty. SECONDS is the time-out of the client that the proxy uses.
"""

import sys

from fastmcp.server import create_proxy
from fastmcp.server.providers.proxy import ProxyClient
from mcp.server.request_state import RequestStateSecurity

url, port, key, name, seconds = sys.argv[1:]
settings = {}
if key:
    settings["request_state_security"] = RequestStateSecurity(keys=[key])
if name:
    settings["name"] = name
target = ProxyClient(url, mode="auto", timeout=float(seconds)) if seconds else url
create_proxy(target, **settings).run(transport="http", port=int(port), show_banner=False)
