"""What people see: the terminal, SVG, the page, generated docs."""
