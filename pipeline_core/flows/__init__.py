"""Flows: DAGs of tasks made from job templates, their runs, schedules and backfills.

The rooms, from the bottom; each uses only those above it in this list:

- `states`: states of runs and tasks, and triggers. They stand at the root since documents, runs and the API all use them.
- `notation`: reads the texts of a flow's fields.
- `definition`: flows and templates as documents: parsed, checked, and tasks prepared for submission.
- `lookup`: reads stored flows and templates. It is no part of `store` since runs and schedules look flows up too, while the
  store reschedules a flow when it changes.
- `runs`: executes flows (its `engine` is the pure state machine).
- `schedules`: creates runs by cron and by backfill.
- `store`: creates, replaces, imports, exports and deletes flows and templates.
"""
