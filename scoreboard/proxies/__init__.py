"""Who sends a request twice: proxies between a client and two instances of the weather server."""
