"""Logs and metrics that try to be HTML are shown as text, and run nothing."""

from __future__ import annotations

import base64
import json

from tests.builders import flow_entry, taskset
from tests.console.browser import Browser
from tests.console.probes import probing
from tests.console.scenario import HTML
from tests.installation import Installation
from tests.waiting import wait_for

NOTE_ALERTS = "window.alerts = []; window.alert = (text) => alerts.push(text);"
MADE = "main img, main script, main iframe, main object, main svg[onload], main [onerror], main a[href^='javascript:']"

METRICS = [
    {"metric_type": "text", "text": " ".join(HTML)},
    {"metric_type": "image", "image": HTML[3]},
    {"metric_type": "table", "table": [[*HTML], [*HTML]]},
    {"metric_type": "table", "table": [{text: text for text in HTML}]},
    {
        "metric_type": "echart",
        "option": {
            "title": {"text": HTML[0]},
            "xAxis": {"data": [*HTML]},
            "series": [{"type": "bar", "name": text, "data": [1, 2, 3]} for text in HTML],
            "tooltip": {"formatter": HTML[1]},
        },
    },
    {"metric_type": "echart", "option": {"series": [{"type": "pie", "data": [{"name": HTML[0], "value": 1}]}]}},
]


def writing(text: str, target: str = "/dev/stdout") -> str:
    """A script that writes a text as it is, though braces in the script of a flow's task are variables."""
    return f"echo {base64.b64encode(text.encode()).decode()} | base64 -d > {target}"


def assert_harmless(browser: Browser) -> None:
    assert browser.script("return alerts") == []
    assert browser.script("return document.querySelectorAll(arguments[0]).length", MADE) == 0
    assert browser.violations_of_the_policy() == []
    assert browser.errors() == []


def test_html_in_logs_is_shown_as_text(admin: Browser, service: Installation) -> None:
    job = service.submit(taskset(writing("\n".join(HTML))), name="html-in-logs")
    service.wait_state(job, "succeeded")
    with probing(admin, NOTE_ALERTS):
        admin.open(f"/jobs/{job}")
        for text in HTML:
            admin.find(".log-text", text)
        admin.find(".logs input[type=search]").send_keys(HTML[0])
        admin.find(".log-target mark", HTML[0])
        assert admin.texts(".log-text") == [*HTML]
        assert_harmless(admin)


def test_html_in_metrics_is_shown_as_text(admin: Browser, service: Installation) -> None:
    script = writing(json.dumps(METRICS), "/metric.json")
    service.post(
        "/v1/flows/import", {"measured": flow_entry("measured", {"measure": []}, {"measure": {"script": script}})}
    )
    run = service.post("/v1/flows/measured/run", {})["runID"]
    wait_for(lambda: service.get(f"/v1/runs/{run}/metrics").get("measure"), "the metrics")
    assert service.get(f"/v1/runs/{run}/metrics")["measure"] == METRICS
    with probing(admin, NOTE_ALERTS):
        admin.open(f"/runs/{run}?view=metrics")
        admin.find(".metric-text", " ".join(HTML))
        admin.find(".metrics .chart figcaption", HTML[0])
        for text in HTML:
            admin.find(".metrics th", text)
            admin.find(".metrics td", text)
            admin.find(".metrics .legend li", text)
        assert_harmless(admin)
