"""Schedules of flows, which create runs. In the order of reading:

- `points`: which points of a schedule are due (pure)
- `schedule_state`: the schedule columns of a stored flow: updated for a new definition, paused, resumed, shown
- `run_creation`: creates the due runs, from the tick of schedules
- `backfills`: starts, stops, resumes and shows backfills; `backfill_progress`: advances them

All but `points` is used from outside.
"""
