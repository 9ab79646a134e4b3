"""The review: everything that makes things go wrong, and judges what comes of it."""
