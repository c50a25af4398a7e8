"""The tasks, one module for each kind of worker: `stages` (one stage of one job), `hooks` (a delivery), `flows` (advancing runs),
`ticks` (housekeeping: what beat sends at intervals). Each loads its own, and `probes`, the queue probes.
"""
