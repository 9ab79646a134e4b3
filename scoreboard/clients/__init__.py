"""What clients do when something goes wrong (`make clients`). Knows the package."""
