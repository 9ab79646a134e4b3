"""What to read first: small servers and clients that are written out in full."""
