"""Reading a request's JSON, strictly: what is stored and passed on to plugins must be the same to every reader."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from flask import request
from werkzeug.exceptions import RequestEntityTooLarge

from pipeline_core.errors import TooLarge, UnsupportedMediaType, WrongParameter

MAX_BYTES = 4 * 1024 * 1024
READ_BYTES = MAX_BYTES + 1
"""What is read at most: a body of unknown length is cut off there without a word, so one byte more tells."""
MAX_DEPTH = 100
"""Levels of objects and arrays: code that walks a document may use recursion."""

MEDIA_TYPE = "application/json"

_QUOTED = 60


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

    Raises WrongParameter unless it is UTF-8 and JSON (RFC 8259), without NaN and infinities, without a key that an
    object has twice, without NUL and unpaired surrogates (PostgreSQL stores neither), at most MAX_DEPTH levels deep.
    """
    if not raw:
        raise WrongParameter("The request's body is empty; it must be a JSON object.")
    try:
        text = raw.decode("utf-8")
        document = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        raise WrongParameter(f"The body is not UTF-8: byte {error.start} is no part of a character.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        hint = " It begins with a byte order mark." if raw.startswith(b"\xef\xbb\xbf") else ""
        raise WrongParameter(f"The body is not JSON: {error.msg} ({where}).{hint}") from None
    except RecursionError:
        raise WrongParameter(_TOO_DEEP) from None
    except ValueError as error:
        # Python's own refusal of integers with thousands of digits.
        raise WrongParameter(f"The body is not JSON that the service can hold: {error}.") from None
    # Only an escape can bring in a NUL or half a pair, and only so many brackets can nest too deeply.
    if "\\u" in text or text.count("{") + text.count("[") > MAX_DEPTH:
        _check(document)
    return document


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


def _check(document: Any) -> None:
    level, depth = [document], 0
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, str):
                _check_text(node)
            elif isinstance(node, dict | list):
                if depth == MAX_DEPTH:
                    raise WrongParameter(_TOO_DEEP)
                below += node
                below += node.values() if isinstance(node, dict) else ()
        level, depth = below, depth + 1


def _check_text(text: str) -> None:
    if "\0" in text:
        raise WrongParameter(f"The text {text[:_QUOTED]!a} has a NUL character, which cannot be stored.")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise WrongParameter(
            f"The text {text[:_QUOTED]!a} has half of a surrogate pair, which is no character."
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        raise WrongParameter(f'The body has an object with the key "{twice[:_QUOTED]}" twice.')
    return members


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise WrongParameter(f"The body has the number {text[:_QUOTED]}, which is too large.")
    return number


def _constant(text: str) -> NoReturn:
    raise WrongParameter(f"The body has {text}, which is not a number in JSON.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_number, parse_constant=_constant)
_TOO_LARGE = f"The request's body is larger than {MAX_BYTES} bytes."
_TOO_DEEP = f"The body is nested more than {MAX_DEPTH} levels deep."
