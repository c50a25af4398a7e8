"""Celery: the app, the chain of stage tasks, hook deliveries, beat's ticks, and the watcher. What any of them decides
is decided in `pipeline_core`; here it is only moved between processes.
"""
