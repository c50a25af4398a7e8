"""Flows: DAGs of tasks made from job templates, their runs, schedules and backfills.

`notation` reads the texts of a flow's fields, `definition` the documents, `store` keeps them, `runs` executes them (its
`engine` is the pure state machine), `schedules` creates runs by cron and by backfill.
"""
