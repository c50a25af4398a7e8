"""What `scripts/bench` runs: one module for each row, which measures the service and a baseline in the same run.

A row has a `NAME` and `measure(scale)`, which answers with a `results.Result`. `stand` gives it servers and processes of
its own, `baselines` has the programs that the service is compared with.
"""
