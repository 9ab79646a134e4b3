"""Every combination of faults up to a bound: made, judged, shared among processes, and shown."""
