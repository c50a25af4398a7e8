"""Celery, and the watcher. What becomes of jobs is decided in `pipeline_core`; here is how the work gets to processes.

- `names`: the names of queues and tasks; `app`: the Celery app; `signals`: what its processes do at their start
- `publish`: publishes wake-ups, which `publisher` sends from a thread of its own; `transport`: Redis without records of taken
  messages; `chain`: the chain of a job's stage tasks; `queues`: how many messages wait
- `tasks`: the tasks, and beat's ticks; `each_job`: calls a function for many jobs, without those that
  the cluster cannot serve now
- `stage_run`: one run of a stage; `launches`: many launches at a time; `lease_renewal`: keeps the leases of steps; `alone`:
  runs a step that workers died at; `task_events`: Celery's events of stages that are carried on
- `questions`: sends what shadows are to be asked; `shadow_process`: the process in
  which `shadows` asks them
- `watch`: the watcher; `background`: what the background worker runs beside its tasks, with the ticks of `ticker`
- `heartbeats`, `liveness`: how a process shows that it is alive; `processes`: the command line of each process, which
  `__main__` reads

From outside use `app`, `names`, `publish`, `queues` and `processes`. A process is started by its command line.
"""
