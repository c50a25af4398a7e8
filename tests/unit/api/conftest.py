"""The API without a database: tokens come from a table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
from flask import Flask
from flask.testing import FlaskClient

from api import auth
from api.blueprint import LIMIT
from pipeline_core.auth import tokens
from pipeline_core.auth.actor import Actor
from pipeline_core.auth.privileges import Privilege
from pipeline_core.errors import Unauthenticated
from pipeline_core.settings import settings

ACTORS = {
    "admin": Actor(name="admin", admin=True),
    "nothing": Actor(name="nobody"),
    **{privilege.value: Actor(name="somebody", privileges=frozenset({privilege})) for privilege in Privilege},
}
"""By the value of the token that each is known by."""


def _authenticate(value: str, *, address: str, request_id: str) -> Actor:
    if value not in ACTORS:
        raise Unauthenticated("The token is unknown, revoked or expired.")
    return ACTORS[value]


@pytest.fixture
def app(api_app: Flask, monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]) -> Flask:
    api_app.extensions[LIMIT] = auth.FailureLimit(settings().failed_logins)
    monkeypatch.setattr(auth, "connected", nullcontext)
    monkeypatch.setattr(tokens, "authenticate_alone", _authenticate)
    return api_app


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    return app.test_client()
