"""What `uuid` and `datetime` are in `{{ }}`: not Python's modules, but as much of them as may be used."""

from __future__ import annotations

import re
import uuid
from datetime import datetime, timedelta
from types import SimpleNamespace
from zoneinfo import ZoneInfo

from pipeline_core.common.clock import now

ATTRIBUTES = frozenset({"uuid4", "hex", "datetime", "now", "strptime", "strftime", "timedelta", "isoformat"})
"""Every attribute that an expression may name."""

MAX_FORMAT = 256
"""Characters of a format of `strftime` or `strptime`."""

# A width, as in %100000d, would make the C library write as much as that.
_FORMAT = re.compile(r"(?:[^%]|%[-_0^#]?[A-Za-z%])*", re.DOTALL)


class Moment(datetime):
    """A date and time without zone, as a clock on the wall in the flow's time zone shows it."""

    def strftime(self, format: str) -> str:
        """As datetime's, with formats of at most MAX_FORMAT characters and without widths. Raises ValueError."""
        return super().strftime(_checked(format))


def uuid_facade() -> SimpleNamespace:
    """Offers `uuid4()`, whose result has `hex`."""
    return SimpleNamespace(uuid4=uuid.uuid4)


def datetime_facade(timezone: str) -> SimpleNamespace:
    """Offers `datetime.now()`, `datetime.strptime(text, format)` and `timedelta(days=1)`; now is that of `timezone`."""
    zone = ZoneInfo(timezone)

    def current() -> Moment:
        return Moment.fromisoformat(now().astimezone(zone).replace(tzinfo=None).isoformat())

    def parsed(text: str, format: str) -> Moment:
        if len(text) > MAX_FORMAT:
            raise ValueError(f"a date must have at most {MAX_FORMAT} characters")
        return Moment.strptime(text, _checked(format)).replace(tzinfo=None)

    return SimpleNamespace(datetime=SimpleNamespace(now=current, strptime=parsed), timedelta=timedelta)


def _checked(format: str) -> str:
    if len(format) > MAX_FORMAT or not _FORMAT.fullmatch(format):
        raise ValueError(f"a format must be at most {MAX_FORMAT} characters, with directives as %Y or %-d")
    return format
