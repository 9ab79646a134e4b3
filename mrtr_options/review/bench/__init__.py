"""What plays a call and records it: schedules, faults, deployments, clients."""
