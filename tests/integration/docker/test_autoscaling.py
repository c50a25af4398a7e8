"""The components that scale stage workers by how long steps wait."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.integration.docker.test_manifests import what_the_schema_knows
from tests.manifests import KUSTOMIZE, ROOT, Manifest, of_kind, rendered

COMPONENTS = KUSTOMIZE / "autoscaling"
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "additionalProperties": False, "required": required, "properties": properties}


NUMBER = {"type": "integer", "minimum": 0}
SCALED_OBJECT = closed(
    ["scaleTargetRef", "triggers"],
    scaleTargetRef=closed(["name"], apiVersion={}, kind={}, name={"type": "string"}, envSourceContainerName={}),
    pollingInterval=NUMBER,
    cooldownPeriod=NUMBER,
    initialCooldownPeriod=NUMBER,
    idleReplicaCount=NUMBER,
    minReplicaCount=NUMBER,
    maxReplicaCount=NUMBER,
    fallback=closed(["failureThreshold", "replicas"], failureThreshold=NUMBER, replicas=NUMBER, behavior={}),
    advanced=closed(
        [],
        horizontalPodAutoscalerConfig=closed([], name={}, behavior={"type": "object"}),
        restoreToOriginalReplicaCount={"type": "boolean"},
        scalingModifiers={},
    ),
    triggers={
        "type": "array",
        "items": closed(
            ["type", "metadata"],
            type={"const": "prometheus"},
            name={"type": "string"},
            metricType={"enum": ["AverageValue", "Value", "Utilization"]},
            useCachedMetrics={"type": "boolean"},
            authenticationRef={},
            metadata={**TEXTS, "required": ["serverAddress", "query", "threshold"]},
        ),
    },
)
"""The specification of keda.sh/v1alpha1 ScaledObject, with Prometheus as the only trigger."""
EXTERNAL_RULE = closed(
    ["seriesQuery", "metricsQuery"],
    seriesQuery={"type": "string"},
    seriesFilters={"type": "array"},
    name=closed([], matches={"type": "string"}, **{"as": {"type": "string"}}),
    resources=closed([], template={}, overrides={}, namespaced={"type": "boolean"}),
    metricsQuery={"type": "string"},
)
"""A rule in the configuration of the Prometheus adapter."""


def with_component(name: str, directory: Path) -> list[Manifest]:
    path = os.path.relpath(KUSTOMIZE, directory.resolve())
    (directory / "kustomization.yaml").write_text(
        f"resources: [{path}/base]\ncomponents: [{path}/autoscaling/{name}]\n"
    )
    return rendered(directory)


def test_keda_scales_in_place_of_the_base_s_autoscaler(tmp_path: Path) -> None:
    manifests = with_component("keda", tmp_path)
    assert of_kind(manifests, "HorizontalPodAutoscaler") == []
    (scaler,) = of_kind(manifests, "ScaledObject")
    jsonschema.validate(scaler["spec"], SCALED_OBJECT)
    target = scaler["spec"]["scaleTargetRef"]
    assert target["name"] in {one["metadata"]["name"] for one in of_kind(manifests, target["kind"])}


def test_a_field_that_keda_does_not_have_would_be_found() -> None:
    spec = yaml.safe_load((COMPONENTS / "keda" / "scaled-object.yaml").read_text())["spec"]
    with pytest.raises(jsonschema.ValidationError, match="maxReplicas"):
        jsonschema.validate({**spec, "maxReplicas": 3}, SCALED_OBJECT)


def test_the_autoscaler_looks_at_the_metric_that_the_adapter_serves(tmp_path: Path) -> None:
    (scaler,) = of_kind(with_component("prometheus-adapter", tmp_path), "HorizontalPodAutoscaler")
    assert what_the_schema_knows(scaler) == scaler
    (metric,) = scaler["spec"]["metrics"]
    (rule,) = yaml.safe_load((COMPONENTS / "prometheus-adapter" / "rules.yaml").read_text())["externalRules"]
    jsonschema.validate(rule, EXTERNAL_RULE)
    assert metric["external"]["metric"]["name"] == rule["name"]["as"]


def test_both_ask_for_the_same_metric_that_the_service_has() -> None:
    (trigger,) = yaml.safe_load((COMPONENTS / "keda" / "scaled-object.yaml").read_text())["spec"]["triggers"]
    (rule,) = yaml.safe_load((COMPONENTS / "prometheus-adapter" / "rules.yaml").read_text())["externalRules"]
    assert trigger["metadata"]["query"] == rule["metricsQuery"]
    (metric,) = re.findall(r"pipeline_\w+", rule["metricsQuery"])
    assert f'"{metric}"' in (ROOT / "pipeline_core/operations/gauges.py").read_text()
