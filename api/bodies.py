"""Reading a request's JSON, strictly: what is stored and passed on to plugins must be the same to every reader."""

from __future__ import annotations

from typing import Any

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from pipeline_core.common import strict_json
from pipeline_core.common.strict_json import NotStrict
from pipeline_core.errors import TooLarge, UnsupportedMediaType, WrongParameter

MAX_BYTES = 4 * 1024 * 1024
READ_BYTES = MAX_BYTES + 1
"""What is read at most: a body of unknown length is cut off there without a word, so one byte more tells."""
MEDIA_TYPE = "application/json"


def read() -> bytes:
    """The request's body as it came. Raises TooLarge, and UnsupportedMediaType unless it says that it is plain JSON."""
    try:
        raw = request.get_data(cache=False)
    except RequestEntityTooLarge:
        raise TooLarge(_TOO_LARGE) from None
    if len(raw) > MAX_BYTES:
        raise TooLarge(_TOO_LARGE)
    if raw:
        _check_type()
    return raw


def parse(raw: bytes) -> Any:
    """The JSON document in `raw`, its keys in their order.

    Raises WrongParameter for whatever `strict_json.parse` refuses.
    """
    if not raw:
        raise WrongParameter("The request's body is empty; it must be a JSON object.")
    try:
        return strict_json.parse(raw)
    except NotStrict as error:
        raise WrongParameter(f"The body {error}.") from None


def _check_type() -> None:
    if request.mimetype != MEDIA_TYPE:
        sent = f'is "{request.mimetype}"' if request.mimetype else "is not said"
        raise UnsupportedMediaType(f"The body's media type {sent}; it must be {MEDIA_TYPE}.")
    charset = request.mimetype_params.get("charset", "utf-8")
    if charset.lower().replace("_", "-") not in ("utf-8", "utf8"):
        raise UnsupportedMediaType(f'The body\'s charset is "{charset}"; JSON is UTF-8.')
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding.lower() not in ("identity", ""):
        raise UnsupportedMediaType(f'The body\'s Content-Encoding is "{encoding}"; send it as it is.')


_TOO_LARGE = f"The request's body is larger than {MAX_BYTES} bytes."
