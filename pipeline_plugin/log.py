"""Logs as JSON, a line for each record, with the job and the request that a plugin is answering."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import TextIO

CALL: ContextVar[Mapping[str, str]] = ContextVar("call")
"""What is added to each record while a request is answered: `plugin`, `jobID`, `requestID`, `idempotencyKey`."""
FIELDS = "fields"
"""The attribute of a record that has fields of its own: `log.info("…", extra={"fields": {…}})`."""


class JsonFormatter(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, timezone.utc)
        document = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **CALL.get({}),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def configure(stream: TextIO | None = None, level: int = logging.INFO) -> None:
    """Let everything that this process logs be written so, to standard error unless another stream is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(handlers=[handler], level=level, force=True)
