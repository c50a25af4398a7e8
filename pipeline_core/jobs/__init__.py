"""Jobs: submission, the cursor through the stages, observation of them in the cluster, and reading them.

Read in this order:

- `submission` checks a job and stores it; `lifecycle` is the one place where a job's state changes, with its event and
  deliveries; `control` is stop, resume and retry.
- `claims` takes the steps of the stages, `leases` renews and gives back what was taken, `cursor` finishes a step (by `advancing`
  where the job goes on, by `changes` otherwise); `trail_rows` has its plugin calls; `sweep` finds steps that are due.
- `rollup` applies observations of the cluster; `replicas` is the repository of replicas, and retries them; `results` collects
  their outputs and metrics; `cleanup` deletes what is left of a job in the cluster.
- `queries`, `detail`, `trail`, `logs`, `feed` and `views` read jobs for the API; `explanation` says which plugins a job would
  call.

For use from outside: `submission` and `control` (API, flows), `claims`, `leases` and `cursor` (stage tasks), `rollup` (watcher),
`sweep`, the `due_…`, `pending` and `stale` functions (ticks), `lifecycle.on_transition` (listeners to changes of jobs' states),
the reading side.
"""
