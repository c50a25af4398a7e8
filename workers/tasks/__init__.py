"""The tasks, one module for each kind of worker: `stages` (one stage of one job), `hooks` (all that is due to one subscriber),
`flows` (advancing runs), `ticks` (housekeeping: what beat sends at intervals). Each loads its own, and `probes`, the queue
probes.
"""
