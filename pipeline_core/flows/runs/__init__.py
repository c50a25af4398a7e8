"""Runs of flows: the pure engine, the tasks and jobs of a run, and what is done to them."""
