"""The environment of the service's processes, and the secret key that is kept for them."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path


def child_environment(
    given: Mapping[str, str], *, database_url: str, redis_url: str, secret_key: str, data_dir: Path, loopback: bool
) -> dict[str, str]:
    """`given` with the variables that `pipeline up` sets. Only a run on a loopback address is a development run."""
    development = (given.get("PIPELINE_DEVELOPMENT") or "1") if loopback else "0"
    return {
        **given,
        "PIPELINE_DATABASE_URL": database_url,
        "PIPELINE_REDIS_URL": redis_url,
        "PIPELINE_SECRET_KEY": secret_key,
        "PIPELINE_DATA_DIR": str(data_dir),
        "PIPELINE_DEVELOPMENT": development,
        "PYTHONUNBUFFERED": "1",
    }


def kept_secret_key(data_dir: Path) -> str:
    """The data directory's key, created at the first call: 32 bytes as URL-safe base64."""
    return kept(data_dir / "secret.key", lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())


def kept(path: Path, make: Callable[[], str]) -> str:
    """The secret in this file, created at the first call with mode 0600."""
    if not path.exists():
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(make())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    return path.read_text().strip()
