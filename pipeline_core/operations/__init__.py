"""Running the service. In the order of reading:

- `heartbeats`, `queue_probes`: which processes are alive, and which queues are served
- `status`: the state of the service, read from the database and Redis
- `cluster_health`: whether the cluster can be used
- `health_checks`: the problems that a status shows; `gauges`: the same status as metrics for Prometheus
- `doctor`: what is wrong with an installation, found out beside the API
- `readiness`: whether the database and Redis can be reached
- `due_work`: whether the ticks would find anything to do
- `retention`: deletes what was kept for long enough

All of them are used from outside: by the API, the workers and the ticks.
"""
