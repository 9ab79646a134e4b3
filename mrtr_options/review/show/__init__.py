"""What people see: one telling of a history and of what was found, on the terminal and as SVG."""
