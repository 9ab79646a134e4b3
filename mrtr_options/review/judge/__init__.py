"""What holds a recorded call against what was guaranteed."""
