"""Whose token a request carries."""

from __future__ import annotations

from typing import Any

from api.auth import ANY_TOKEN
from api.blueprint import Blueprint, Call
from api.schemas.tokens import TokenSelf
from pipeline_core.auth import tokens

blueprint = Blueprint("whoami", __name__, url_prefix="/v1/whoami", description="Whose token a request carries.")


@blueprint.operation("GET", "", needs=ANY_TOKEN, payload=TokenSelf)
def whoami(call: Call) -> Any:
    """Whose token this request carries, and what it allows

    `forwho` is `admin` for the admin's password, which allows everything.
    """
    return tokens.of_actor(call.actor)
