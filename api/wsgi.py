"""The application, for a WSGI server: `gunicorn --preload api.wsgi:app`.

The server's processes are forked from the one that loads this, and share the memory of what it has imported.
"""

from __future__ import annotations

from pipeline_core.common.imports import lean_imports

with lean_imports():
    from api.app import check_startup, create_app
    from pipeline_core.runtime import restart

    app = create_app()
check_startup()
# No process inherits a connection.
restart()
