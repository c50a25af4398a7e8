"""The service in one process tree: what `pipeline up` starts, keeps running and stops. In the order of reading:

- `plan`: the processes of the service, as `Service`s (`service`), with their `environment`; `flower`: the optional web UI
- `supervisor`: starts services, restarts those that end, and stops all of them
- `data_directory`: its lock, and the record of the processes that a run started; `running`: their
  environment, for commands beside them; `os_processes`: finding and signalling them
- `embedded`: PostgreSQL and Redis from wheels; `heartbeats`: whether the processes show that they are alive; `listener`: the
  API's socket; `logs`: log files
- `replicas`: what keeps running in the local cluster when the service stops

`pipeline_cli.up` uses it; tests and benchmarks use `embedded` and `os_processes` too.
"""
