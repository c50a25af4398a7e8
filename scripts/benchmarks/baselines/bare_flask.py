"""A Flask application with one view, which inserts a row and sends a Celery message."""

from __future__ import annotations

import os
import threading

import psycopg2
from flask import Flask, request

from scripts.benchmarks.baselines.bare_celery import nothing
from scripts.benchmarks.baselines.table import INSERT

app = Flask("bare")
local = threading.local()


def connection() -> psycopg2.extensions.connection:
    """This thread's connection."""
    if not hasattr(local, "connection"):
        local.connection = psycopg2.connect(os.environ["PIPELINE_DATABASE_URL"])
    opened: psycopg2.extensions.connection = local.connection
    return opened


@app.post("/v1/job")
def submit() -> dict[str, int]:
    """Store the request's body and say under which number."""
    with connection() as open_connection, open_connection.cursor() as cursor:
        cursor.execute(INSERT, (request.get_data(as_text=True),))
        (number,) = cursor.fetchone() or (0,)
    nothing.delay()
    return {"id": number}


@app.get("/readyz")
def ready() -> dict[str, str]:
    """The server is up."""
    return {}
