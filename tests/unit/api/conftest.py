"""The API without what it stands on: tokens are those of a table, and nothing reaches a database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import auth
from api.app import create_app
from pipeline_core.auth import tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.common import log
from pipeline_core.errors import Unauthenticated
from workers import publish

ACTORS = {
    "admin": Actor(name="admin", admin=True),
    "nothing": Actor(name="nobody"),
    **{privilege.value: Actor(name="somebody", privileges=frozenset({privilege})) for privilege in Privilege},
}
"""By the value of the token that each is known by."""


def _authenticate(session: Any, value: str, *, address: str, request_id: str) -> Actor:
    if value not in ACTORS:
        raise Unauthenticated("The token is unknown, revoked or expired.")
    return ACTORS[value]


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> Flask:
    monkeypatch.setattr(publish, "install", lambda: None)
    monkeypatch.setattr(log, "configure", lambda chosen: None)
    monkeypatch.setattr(auth, "connected", nullcontext)
    monkeypatch.setattr(tokens, "authenticate", _authenticate)
    return create_app()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()
