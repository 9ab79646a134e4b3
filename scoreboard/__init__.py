"""What others ship, under review: one folder for each kind of it. Knows the package."""
