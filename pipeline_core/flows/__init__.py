"""Flows: DAGs of tasks made from templates, and everything that is decided about them, as pure functions without I/O.

`documents` reads and writes the import document, `templates` the job templates with their `arguments`; `variables` is the
sandbox of `{{ }}`; `resources`, `gpu` and `mounts` read the notation of what a task needs; `schedule` knows when a flow
is due; `taskset` makes the document of a task's job; `engine` is the state machine of a run. Nobody else decides any of it.
"""
