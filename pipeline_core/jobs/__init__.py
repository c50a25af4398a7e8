"""Jobs: submission, the cursor through the stages, observation of them in the cluster, and reading them.

Read in this order:

- `submission` checks a job and stores it; `lifecycle` is the one place where a job's state changes, with its event and
  deliveries; `control` is stop, resume and retry.
- `claims` takes the leases of steps, `leases` renews them and gives them back. `cursor` finishes a step: `advancing` writes
  that the job goes on to another stage, `changes` writes all other outcomes. `trail_rows` has the plugin calls, `trials` says
  how a step is tried that workers died at, `sweep` finds steps that are due.
- `rollup` applies observations of the cluster; `replicas` is the repository of replicas, and retries them; `results` collects
  their outputs and metrics; `cleanup` deletes what is left of a job in the cluster.
- `queries`, `search`, `detail`, `trail`, `logs` and `views` read jobs for the API; `feed` and `feed_tail` the feed of events,
  to which `feed_changes` adds moves between stages. `explanation` says which plugins a job would call, `what_if` which stored
  jobs a feature would take part in, `blame` which plugin added what, `packets` what a stage's plugins were sent,
  and `past_packets` that of many jobs with what was answered. `shadow_answers` asks shadows and stores what they answer,
  `shadow_report` compares that with what was decided.

For use from outside: `submission` and `control` (API, flows), `claims`, `leases`, `cursor`, `trials` and
`cleanup.delete_late_launch` (stage tasks), `rollup` (watcher), `results` (flows), `feed_tail` (the API's server too),
`shadow_answers.answer`, `sweep`, the `due_…`, `pending` and `stale` functions (ticks), `lifecycle.on_change` (listeners
to changes of jobs' states), the reading side.
"""
