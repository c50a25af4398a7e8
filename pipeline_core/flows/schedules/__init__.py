"""Schedules of flows: which points are due, creating their runs, and backfills."""
