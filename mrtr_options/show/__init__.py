"""What people see: terminal output, pictures, pages, generated docs."""
