"""Everything that the service knows and decides. It knows neither Flask nor Celery: `workers` and `api` stand on it."""
