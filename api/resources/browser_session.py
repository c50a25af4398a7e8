"""The session of a browser: signing in and out."""

from __future__ import annotations

from flask import Response, current_app, g

from api import auth, browsers, envelope
from api.blueprint import LIMIT, Blueprint, Call
from api.openapi import RequestBody
from api.schemas.tokens import Credential, TokenSelf
from pipeline_core.auth import browser_sessions, tokens
from pipeline_core.database import transaction

blueprint = Blueprint("session", __name__, url_prefix="/v1/session", description="Signing in with a browser.")

_COOKIE = {"Set-Cookie": {"description": "The session's ID, or that it is gone.", "schema": {"type": "string"}}}


@blueprint.operation(
    "POST",
    "",
    needs=None,
    body=RequestBody(Credential, example={"token": "Jq3vX0aZ81LmTnRb5cWd7Kfe"}),
    payload=TokenSelf,
    headers=_COOKIE,
    error_statuses=(401, 403, 429),
)
def sign_in(call: Call) -> Response:
    """Sign in with a token or the admin's password, for a browser

    The answer sets a cookie that stands for the token: for 12 hours, and until no request has come for 30 minutes, the token is
    revoked or the password changed. A request by this cookie that changes something has to carry the header `X-Pipeline-Console`
    and come from a page of this service.
    """
    browsers.refuse_cross_site()
    limit = current_app.extensions[LIMIT]
    with auth.limited(limit, call.body) as address, transaction() as session:
        session_id, actor = browser_sessions.sign_in(session, call.body, address=address, request_id=g.request_id)
    response = envelope.success(tokens.of_actor(actor))
    browsers.set_session(response, session_id)
    return response


@blueprint.operation("DELETE", "", needs=None, headers=_COOKIE, error_statuses=(403,))
def sign_out(call: Call) -> Response:
    """Sign out: end the session that the request's cookie is of"""
    if session_id := browsers.session_id():
        browsers.refuse_forged()
        with transaction() as session:
            browser_sessions.sign_out(session, session_id)
    response = envelope.success()
    browsers.forget_session(response)
    return response
