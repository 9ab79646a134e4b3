"""The views: one telling of a history and of its findings, on the terminal and as SVG."""
