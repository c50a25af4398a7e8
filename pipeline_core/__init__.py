"""Everything that the service knows and decides. It knows neither Flask nor Celery: `workers` and `api` stand on it.

Beside its rooms, which CONTRIBUTING.md lists, are `states` (of jobs and replicas), `errors`, and `runtime` (what a process makes
once).
"""
