"""The cluster that is this machine: replicas are groups of processes under a supervisor per job attempt.

The driver, in processes of the service:

- `driver`: `LocalCluster`. Read it first, then `attempt`.
- `attempt`: one job attempt: writes orders, reads states, usage and results.
- `plan`, `fields`: from a TaskSet to a plan; which fields of a pod are honoured.
- `launcher`: starts supervisors; what this machine allows them.

The supervisor and its keepers, which load the bare standard library only, so that they stay small and start quickly:

- `supervisor`: runs one job attempt. `slots`: the limit of running replicas, and the queue.
- `keeper`: runs one replica attempt. `process`, `mounts`, `logfile`: its processes, their root directory, their logs.

Shared: `files` and `journal`, by which the two communicate, `cgroups`, `linux`.

From outside use `launcher.shortcomings`; `LocalCluster` is made by `clusters.factory`.
"""
