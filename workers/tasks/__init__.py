"""The tasks, one module for each kind of worker: `stages` (one stage of one job), `hooks` (all that is due to one subscriber),
`flows` (advancing runs), `ticks` (housekeeping: what beat sends at intervals). A worker loads the modules of the queues that it
serves, and `probes`, the task of queue probes.
"""
