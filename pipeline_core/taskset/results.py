"""Reads the results of a container: the text in `/output` and the metrics in `/metric.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_core.common.strict_json import NotStrict, parse
from pipeline_core.validation.texts import shown

OUTPUT_FILE, METRICS_FILE = "/output", "/metric.json"
"""The files in which a container leaves its text for the tasks that follow, and its metrics."""

MAX_OUTPUT = 4096
"""Bytes of `/output`: as much as a Kubernetes termination message carries."""

MAX_METRICS = 1024 * 1024
"""Bytes of `/metric.json`."""

ECHART = "echart"
METRICS: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "image": ("image",),
    "table": ("table", "file_path"),
    ECHART: ("option",),
}
"""Types of metrics, each with the fields of which it must have one."""


class InvalidResult(ValueError):
    """Why a result cannot be used: a sentence that begins with the name of the file."""


def read_output(raw: bytes) -> str:
    """The output of a task, without one newline at its end. Raises InvalidResult: then the task has failed."""
    if len(raw) > MAX_OUTPUT:
        raise InvalidResult(f"/output has more than {MAX_OUTPUT} bytes, which is all that can be handed on")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidResult(f"/output is not UTF-8: byte {error.start} is no part of a character") from None
    if "\0" in text:
        raise InvalidResult("/output has a NUL character, which cannot be stored")
    return text.removesuffix("\n")


def read_metrics(raw: bytes) -> list[dict[str, Any]]:
    """The metrics in a list or a single object; an object without `metric_type` is the option of an echart.

    Raises InvalidResult, which does not fail the task.
    """
    if len(raw) > MAX_METRICS:
        raise InvalidResult(f"/metric.json has more than {MAX_METRICS} bytes, which is all that is kept")
    try:
        document = parse(raw)
    except NotStrict as error:
        raise InvalidResult(f"/metric.json {error}") from None
    items = document if isinstance(document, list) else [document]
    return [_metric(item, index) for index, item in enumerate(items)]


def _metric(item: Any, index: int) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise InvalidResult(f"/metric.json has {shown(item)} as metric {index}; right would be an object")
    if "metric_type" not in item:
        return {"metric_type": ECHART, "option": item}
    kind = item["metric_type"]
    if not isinstance(kind, str) or kind not in METRICS:
        raise InvalidResult(
            f"/metric.json has the type {shown(kind)} as metric {index}; there are {', '.join(METRICS)}"
        )
    if not any(field in item for field in METRICS[kind]):
        raise InvalidResult(f"/metric.json has no {' or '.join(METRICS[kind])} in metric {index}, which is a {kind}")
    return item
