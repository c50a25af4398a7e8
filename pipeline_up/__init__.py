"""The service in one process tree: what `pipeline up` starts, keeps running and stops.

`supervisor` runs any list of `Service`s, `run` holds a data directory and ends what an earlier run left in it, `plan`
names the service's own processes. The command itself, in `pipeline_cli.up`, is the only user.
"""
