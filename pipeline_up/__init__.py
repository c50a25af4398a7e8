"""The service in one process tree: what `pipeline up` starts, keeps running and stops.

`supervisor` runs any list of `Service`s, `data_directory` locks a data directory and ends the processes that an earlier run
left there, `plan` lists the service's own processes. The command itself is in `pipeline_cli.up`.
"""
