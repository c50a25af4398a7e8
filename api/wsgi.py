"""The application, for a WSGI server: `gunicorn api.wsgi:app`."""

from __future__ import annotations

from api.app import check_startup, create_app

app = create_app()
check_startup()
