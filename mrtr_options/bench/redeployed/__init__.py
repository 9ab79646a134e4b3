"""Next versions of option files, written by hand: `<letter>_<change>.py`. See `redeploys`."""
