"""The application, for a WSGI server: `gunicorn api.wsgi:app`."""

from __future__ import annotations

from api.app import create_app

app = create_app()
