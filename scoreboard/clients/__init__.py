"""Reviews of clients: their reaction when something goes wrong (`make clients`).

Knows the package.
"""
