"""Runs of flows. In the order of reading:

- `state_machine`, which is pure: a run and events give the new run and commands
- `run_definition`: what a run was started with; `repository`: locks a run, applies events to it and writes what follows, by
  the statement of `written`
- `creation`: creates runs; `admission`: which waiting runs start
- `run_signals`: notes that a job of a run has changed, in the transaction of the change; `signalled`: reads a run with
  its signals
- `progress`: advances a run by what has become of its jobs; `attempts`: submits and stops the jobs of its tasks, built by
  `taskset`
- `control`: actions of a person; `queries`: runs for the API; `logs`: the logs of a run

From outside are used: `creation.create`, `admission`, `progress` and `attempts.due` (by tasks and ticks),
`run_signals.listen` (by every process that changes jobs), `control`, `queries` and `logs`. Schedules also use `repository`
and `state_machine`.
"""
