"""Requests of browsers that have signed in: the cookie, and what shows that no other site has made them."""

from __future__ import annotations

from typing import Final

from flask import Response, request

from pipeline_core.auth.browser_sessions import LONGEST
from pipeline_core.errors import Forbidden

COOKIE: Final = "pipeline_session"
"""The name of the cookie at port 80 where the address names no port; see `cookie_name`."""
HTTPS_PORT: Final = "443"
CSRF_HEADER: Final = "X-Pipeline-Console"
"""Each request of the console has it. Another site's page cannot set it: the browser would ask for permission first."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


def cookie_name() -> str:
    """The cookie's name at the port that the request was made to: a host's cookies go to all of its ports."""
    port = request.host.rpartition(":")[2]
    if port.isascii() and port.isdigit():
        return f"{COOKIE}_{port}"
    return f"{COOKIE}_{HTTPS_PORT}" if request.is_secure else COOKIE


def session_id() -> str:
    """The ID in the request's cookie; empty when there is none."""
    return request.cookies.get(cookie_name(), "")


def refuse_forged() -> None:
    """Raises Forbidden unless a request by cookie that changes something comes from a page of this service.

    Such a page sends the CSRF header, and the browser says where the page is from: in `Sec-Fetch-Site`, or, where it is reached
    by HTTP at another machine, in `Origin` alone.
    """
    if request.method in SAFE_METHODS:
        return
    if not request.headers.get(CSRF_HEADER):
        raise Forbidden(f"A request by cookie that changes something has to carry the header {CSRF_HEADER}.")
    if "Sec-Fetch-Site" not in request.headers and "Origin" not in request.headers:
        raise Forbidden("A request by cookie that changes something has to carry Sec-Fetch-Site or Origin.")
    refuse_cross_site()


def refuse_cross_site() -> None:
    """Raises Forbidden when a browser says that another site's page has made the request."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") != "same-origin":
        raise Forbidden("The page that has made this request is not of this service.")
    own = f"{request.scheme}://{request.host}"
    if request.headers.get("Origin", own) != own:
        raise Forbidden(f"The page that has made this request is not of {own}.")


def set_session(response: Response, session_id: str) -> None:
    """Have the browser send this ID with its requests to this service, and to nobody else."""
    response.set_cookie(
        cookie_name(),
        session_id,
        max_age=LONGEST,
        path=request.root_path or "/",
        secure=request.is_secure,
        httponly=True,
        samesite="Strict",
    )


def forget_session(response: Response) -> None:
    """Have the browser forget the ID."""
    response.delete_cookie(
        cookie_name(), path=request.root_path or "/", secure=request.is_secure, httponly=True, samesite="Strict"
    )
