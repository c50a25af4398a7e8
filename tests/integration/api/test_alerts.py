"""The alert rules have the form that Prometheus wants, and each has its place in the docs; they and the dashboard ask for metrics
that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from api.resources import metrics
from pipeline_core.hooks.deliveries import DeliveryStatus
from pipeline_core.operations import gauges
from pipeline_core.operations.gauges import Kind
from pipeline_core.plugins.guard import AttemptOutcome, Circuit
from pipeline_core.stages.names import Stage
from tests.pages import Page

ROOT = Path(__file__).parents[3]
RULES = yaml.safe_load((ROOT / "docker/prometheus/alerts.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
RULES_FILE = ROOT / "docker/prometheus/alerts.yaml"
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="no promtool (Debian's package prometheus)")
DASHBOARD = json.loads((ROOT / "docker/grafana/pipeline.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PAGE = (ROOT / "docs/when-something-is-stuck.md").read_text()

FORM = {
    "type": "object",
    "required": ["groups"],
    "additionalProperties": False,
    "properties": {
        "groups": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "rules"],
                "additionalProperties": False,
                "properties": {
                    "name": {"type": "string"},
                    "rules": {
                        "type": "array",
                        "minItems": 1,
                        "items": {
                            "type": "object",
                            "required": ["alert", "expr", "labels", "annotations"],
                            "additionalProperties": False,
                            "properties": {
                                "alert": {"type": "string", "pattern": "^Pipeline[A-Za-z]+$"},
                                "expr": {"type": "string"},
                                "for": {"type": "string", "pattern": "^[0-9]+[smhd]$"},
                                "labels": {
                                    "type": "object",
                                    "required": ["severity"],
                                    "properties": {"severity": {"enum": ["warning", "critical"]}},
                                    "additionalProperties": {"type": "string"},
                                },
                                "annotations": {
                                    "type": "object",
                                    "required": ["summary", "runbook"],
                                    "additionalProperties": {"type": "string"},
                                },
                            },
                        },
                    },
                },
            },
        }
    },
}
LABEL_VALUES = {
    "circuit": {*Circuit},
    "outcome": {*AttemptOutcome},
    "status": {*DeliveryStatus},
    "stage": {*Stage},
}


@pytest.fixture
def families(admin: Any) -> dict[str, gauges.Family]:
    """What is scraped, by the names of its samples."""
    named = {}
    for family in metrics.read():
        for suffix in ("_count", "_sum", "_bucket") if family.kind is Kind.HISTOGRAM else ("",):
            named[family.name + suffix] = family
    return named


def test_the_rules_have_prometheus_form() -> None:
    jsonschema.validate(RULES, FORM)
    assert len(ALERTS) == sum(len(group["rules"]) for group in RULES["groups"]), "no alert stands twice"


def promtool(*words: str) -> str:
    """What promtool prints; it must succeed."""
    done = subprocess.run([str(PROMTOOL), *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@needs_promtool
def test_prometheus_accepts_the_rules() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES_FILE))


@needs_promtool
def test_prometheus_accepts_the_documented_configuration_with_the_rules(tmp_path: Path) -> None:
    (configuration,) = Page("observing.md").blocks("## Dashboard and alerts", "yaml")
    (tmp_path / "prometheus.yaml").write_text(configuration)
    shutil.copy(RULES_FILE, tmp_path)
    assert f"{len(ALERTS)} rules found" in promtool("check", "config", str(tmp_path / "prometheus.yaml"))


def labels_of(expression: str, families: dict[str, gauges.Family]) -> set[str]:
    """The labels of what an expression asks for, having checked that its metrics, labels and their values are there."""
    named = re.findall(r"\b(pipeline_\w+)(?:\{([^}]*)\})?", expression)
    assert named, expression
    labels: set[str] = set()
    for metric, matchers in named:
        assert metric in families, f"{expression} asks for {metric}"
        labels |= set(families[metric].labels)
        for label, values in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
            assert label in families[metric].labels, f"{expression}: {metric} has no label {label}"
            if not values.startswith("$"):
                assert set(values.split("|")) <= LABEL_VALUES[label], f"{expression}: {values}"
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        by = {label.strip() for label in grouped.split(",")} - {"le"}
        assert by <= labels, f"{expression} groups by labels that its metrics lack"
        labels = by
    return labels


def test_every_metric_and_label_that_a_rule_names_is_there(families: dict[str, gauges.Family]) -> None:
    for name, rule in ALERTS.items():
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= labels_of(rule["expr"], families), f"{name} uses labels that its metric lacks"


def test_every_metric_and_label_that_a_panel_names_is_there(families: dict[str, gauges.Family]) -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert used <= labels_of(target["expr"], families), f"{panel['title']} shows labels that its metric lacks"
    asked = re.fullmatch(r"label_values\((\w+), (\w+)\)", DASHBOARD["templating"]["list"][1]["definition"])
    assert asked
    assert asked[2] in families[asked[1]].labels


def test_the_dashboard_shows_every_metric_that_an_alert_asks_for() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    asked = {name for rule in ALERTS.values() for name in re.findall(r"\bpipeline_\w+", rule["expr"])}
    assert {name for name in asked if name not in shown} == set()


def test_panels_lie_side_by_side_and_name_paragraphs_that_are_there() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, f"{panel['title']} lies over another"
        assert place["x"] + place["w"] <= 24
        taken |= cells
    anchors = {name.lower() for name in ALERTS}
    for panel in PANELS:
        assert set(re.findall(r"when-something-is-stuck\.md#(\w+)", panel["description"])) <= anchors
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_parentheses_and_braces_of_expressions_are_closed() -> None:
    for rule in ALERTS.values():
        for opening, closing in ("()", "{}", "[]"):
            assert rule["expr"].count(opening) == rule["expr"].count(closing)


@pytest.mark.parametrize("alert", ALERTS)
def test_every_alert_says_what_to_do(alert: str) -> None:
    assert f"### {alert}\n" in PAGE
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/when-something-is-stuck.md#{alert.lower()}"


def test_every_metric_has_its_line_in_the_docs(families: dict[str, gauges.Family]) -> None:
    missing = sorted({family.name for family in families.values() if f"`{family.name}`" not in PAGE})
    assert not missing


def test_no_metric_has_the_name_of_another(admin: Any) -> None:
    names = [family.name for family in metrics.read()]
    assert len(names) == len(set(names))
