"""Where TaskSets run.

- `base`: the interface `Cluster` that every driver has, and the values that cross it.
- `factory`: `cluster()`, the driver of this process.
- `logs`: which log files a query asks for, and merging them by time; the drivers `kubernetes` and `local` use it.
- `records`: the form in which log files are kept; `log_cursor`: how far a reader of a job's logs has come.
- `kubernetes`, `local`, `null`: the drivers.

From outside use `factory`, `base`, `log_cursor` and `logs.as_text`; `local.launcher.shortcomings` is for the start-up message.
This module imports nothing, since the supervisors of the local driver load it too, and have to stay small.
"""
