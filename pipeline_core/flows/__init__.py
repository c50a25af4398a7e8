"""Flows: DAGs of tasks made from job templates, their runs, schedules and backfills.

From the bottom; each uses only those above it in this list:

- `states`: states of runs and tasks, and triggers, which documents, runs and the API all use.
- `notation`: reads the texts of a flow's fields.
- `definition`: flows and templates as documents: parsed, checked, and tasks prepared for submission.
- `lookup`: reads stored flows and templates, for runs and schedules too, which `store` depends on.
- `runs`: executes flows (its `engine` is the pure state machine).
- `schedules`: creates runs by cron and by backfill.
- `store`: creates, replaces, imports, exports and deletes flows and templates.
"""
