"""The views: one telling of a history and of its breaches, on the terminal and as SVG."""
