"""Running the service: heartbeats, queue probes, readiness, status, health checks, metrics, retention."""
