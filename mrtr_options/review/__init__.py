"""The judge: what every option really does, measured. Knows options only by their public shape."""
