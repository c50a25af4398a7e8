from __future__ import annotations

import re
from typing import Any

import pytest

from pipeline_core.operations.doctor.settings_rules import contradictions, similar, unknown
from pipeline_core.settings import Settings
from tests.pages import ROOT


def test_the_defaults_do_not_contradict_each_other() -> None:
    assert list(contradictions(Settings())) == []


@pytest.mark.parametrize(
    ("chosen", "variables"),
    [
        ({"log_days": 100.0}, "PIPELINE_LOG_DAYS, PIPELINE_RETENTION_DAYS"),
        ({"hook_concurrency": 32}, "PIPELINE_HOOK_CONCURRENCY"),
        (
            {"hook_retry_max_seconds": 300.0, "hook_give_up_seconds": 60.0},
            "PIPELINE_HOOK_RETRY_MAX_SECONDS, PIPELINE_HOOK_GIVE_UP_SECONDS",
        ),
        ({"alert_authorization": "Bearer x"}, "PIPELINE_ALERT_AUTHORIZATION, PIPELINE_ALERT_URL"),
        ({"kube_context": "x"}, "PIPELINE_CLUSTER_DRIVER, PIPELINE_KUBE_CONTEXT"),
        ({"cluster_driver": "null", "local_slots": 3}, "PIPELINE_CLUSTER_DRIVER, PIPELINE_LOCAL_SLOTS"),
        ({"cluster_driver": "kubernetes", "kube_context": "x"}, "PIPELINE_KUBE_CONTEXT, PIPELINE_KUBECONFIG"),
    ],
)
def test_settings_that_contradict_each_other_are_named(chosen: dict[str, Any], variables: str) -> None:
    (only,) = contradictions(Settings(**chosen))
    assert only.variables == variables


def test_kept_for_ever_is_longer_than_any_days() -> None:
    assert list(contradictions(Settings(retention_days=0.0, log_days=1000.0))) == []


def test_variables_that_are_no_settings_are_unknown() -> None:
    environment = dict.fromkeys(
        (
            "PIPELINE_LOG_LEVEL",
            "PIPELINE_TOKEN",
            "PIPELINE_SERVICE_HOST",
            "PIPELINE_PORT_80_TCP",
            "PIPELINE_LOGLEVEL",
            "HOME",
        ),
        "x",
    )
    assert unknown(environment) == ("PIPELINE_LOGLEVEL",)
    assert similar("PIPELINE_LOGLEVEL") == "PIPELINE_LOG_LEVEL"
    assert similar("PIPELINE_ZZZ") == ""


def test_what_the_manifests_and_the_image_set_is_known() -> None:
    texts = [path.read_text() for path in (ROOT / "docker").rglob("*") if path.is_file()]
    named = set(re.findall(r"\bPIPELINE_[A-Z0-9_]*[A-Z0-9]\b", "\n".join(texts)))
    assert "PIPELINE_DATABASE_URL" in named
    assert unknown(dict.fromkeys(named, "x")) == ()
