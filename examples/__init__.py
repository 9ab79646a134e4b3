"""Small servers and clients that are written out in full: read these first."""
