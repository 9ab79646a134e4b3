"""The bench: it plays a call and records it. It has schedules, faults, deployments and clients."""
