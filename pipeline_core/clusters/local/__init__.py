"""The cluster that is this machine: replicas are groups of processes under a supervisor per job and attempt.

From outside: `driver.LocalCluster` and `launcher.shortcomings`. Two kinds of modules live here. Those of the service
(`driver`, `attempt`, `plan`, `honoured`, `launcher`, `inotify`, `usage`) turn a TaskSet into a plan, and files into
observations. Those of the supervisor (`supervisor`, `keeper`, `slots`, `logfile`, `process`, `mounts`, `environment`,
`linux`) run with the bare standard library and import neither the service's modules nor anything heavy. `files`,
`journal` and `cgroups` are what the two sides share.
"""
