"""The form of the records in which logs are kept, for the processes that write them and those that read them.

A record is `2026-01-31T12:00:00.000001Z text` for a line, or for its end; with `+` in place of the blank, the line goes on in the
next record of the file.
"""

from __future__ import annotations

END, OPEN = b" ", b"+"
"""What stands between the time and the text of a record: whether the line ends with it."""

LIMIT_SENTENCE = (
    "[This log has reached its limit of {limit} bytes (PIPELINE_LOG_LIMIT_BYTES); nothing written later is kept.]"
)
"""The last line of a log that was cut."""
