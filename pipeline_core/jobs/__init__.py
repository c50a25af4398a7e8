"""Jobs: taking them in, their cursor through the stages, what becomes of them in the cluster, and reading them.

From outside: `submission`, `control` (stop, resume, retry), `cursor` (for stage tasks), `rollup` (for the watcher),
`cleanup`, `retries` and `suspensions` (for housekeeping), `plan` (a job's way foretold), and the reading side (`queries`,
`detail`, `trail`, `logs`, `feed`).
"""
