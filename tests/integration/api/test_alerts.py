"""The alert rules have the form that Prometheus wants, ask for metrics that there are, and each has its place in the docs."""

from __future__ import annotations

import re
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

ROOT = Path(__file__).parents[3]
RULES = yaml.safe_load((ROOT / "docker/prometheus/alerts.yaml").read_text())
ALERTS = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
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


def test_every_metric_and_label_that_a_rule_names_is_there(families: dict[str, gauges.Family]) -> None:
    for name, rule in ALERTS.items():
        named = re.findall(r"\b(pipeline_\w+)(?:\{([^}]*)\})?", rule["expr"])
        assert named, name
        labels = set()
        for metric, matchers in named:
            assert metric in families, f"{name} asks for {metric}"
            labels |= set(families[metric].labels)
            for label, values in re.findall(r'(\w+)=~?"([^"]*)"', matchers):
                assert label in families[metric].labels
                assert set(values.split("|")) <= LABEL_VALUES[label], f"{name}: {values}"
        used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert used <= labels, f"{name} uses labels that its metric lacks"


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
