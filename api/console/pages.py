"""The routes of the console: its one HTML document, at the path of each of its pages, and its files."""

from __future__ import annotations

from flask import Blueprint, Response, render_template_string, request, url_for
from werkzeug.exceptions import NotFound

from api import browsers, envelope
from api.console.assets import Asset, assets

blueprint = Blueprint("console", __name__)

PAGES = ("jobs", "decisions", "submit", "plugins", "features", "operations", "flows", "templates", "runs")
"""The first parts of the paths of pages, besides `/`; which page a path is of is decided in `static/app/pages.js`."""

_IMMUTABLE = "public, max-age=31536000, immutable"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "frame-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)


@blueprint.get("/")
@blueprint.get(f"/<any({', '.join(PAGES)}):page>")
@blueprint.get(f"/<any({', '.join(PAGES)}):page>/<path:rest>")
def document(page: str = "", rest: str = "") -> Response:
    """The HTML document; the modules that it names show the page that its path is of."""
    found = assets()
    html = render_template_string(
        found.files["index.html"].raw.decode(),
        root=request.root_path,
        signed_in=bool(browsers.session_id()),
        folder=url_for("console.file", digest=found.digest, name=""),
        first=found.first,
    )
    response = Response(html, content_type="text/html; charset=utf-8")
    # It names the files of this version, so that a browser asks for it each time.
    response.headers["Cache-Control"] = "no-cache"
    return _guarded(response)


@blueprint.app_errorhandler(NotFound)
def nothing(error: NotFound) -> Response:
    """Whoever looks for a page that is not there, by a browser, is shown so by the console; others by the API's answer."""
    wants_page = request.accept_mimetypes.best_match(("application/json", "text/html")) == "text/html"
    if not wants_page or request.method != "GET" or request.path.startswith("/v1/"):
        return envelope.failure(error)
    response = document()
    response.status_code = 404
    return response


@blueprint.get("/console/<digest>/<path:name>")
def file(digest: str, name: str) -> Response:
    """A file of the console's."""
    found = assets()
    if digest != found.digest or name not in found.files:
        raise NotFound
    response = _compressed(found.files[name])
    response.headers["Cache-Control"] = _IMMUTABLE
    return _guarded(response)


def _compressed(asset: Asset) -> Response:
    if request.accept_encodings["gzip"]:
        response = Response(asset.compressed, content_type=asset.media_type)
        response.headers["Content-Encoding"] = "gzip"
    else:
        response = Response(asset.raw, content_type=asset.media_type)
    response.headers["Vary"] = "Accept-Encoding"
    return response


def _guarded(response: Response) -> Response:
    """Let the page run and fetch nothing but what is this service's, and let no other page show it in a frame."""
    response.headers["Content-Security-Policy"] = _POLICY
    response.headers["Referrer-Policy"] = "no-referrer"
    return response
