"""A Flask application that does nothing."""

from __future__ import annotations

from flask import Flask

app = Flask("idle")


@app.get("/readyz")
def ready() -> dict[str, str]:
    """The server is up."""
    return {}
