"""Flows: DAGs of tasks made from job templates, their runs, schedules and backfills.

Each of these uses only those before it in this list:

- `states`: states of runs and tasks, and triggers, which documents, runs and the API all use.
- `notation`: reads the texts of a flow's fields.
- `definition`: flows and templates as documents: parsed, checked, and tasks prepared for submission.
- `lookup`: reads stored flows and templates. `runs` and `schedules` use it too, and must not depend on `store`.
- `runs`: executes flows (`state_machine` is pure).
- `schedules`: creates runs by cron and by backfill.
- `store`: creates, replaces, imports, exports and deletes flows and templates.
"""
