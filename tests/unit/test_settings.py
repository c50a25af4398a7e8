"""Settings that depend on each other, and the errors for invalid ones."""

from __future__ import annotations

import pytest

from pipeline_core.errors import ConfigurationError
from pipeline_core.settings import Settings, settings

pytestmark = pytest.mark.usefixtures("fresh_runtime")


def test_a_stage_s_limits_are_in_their_order() -> None:
    own = Settings()
    longest_plugin = 300
    assert max(own.stage_budget_seconds, longest_plugin) < own.soft_limit_seconds < own.hard_limit_seconds


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PIPELINE_MAX_CLAIMS", "1", "must be at least 2"),
        ("PIPELINE_STAGE_THREADS", "0", "must be at least 1"),
        ("PIPELINE_DATABASE_CONNECTIONS", "0", "must be at least 1"),
        ("PIPELINE_LEASE_SECONDS", "0.5", "must be at least 1"),
        ("PIPELINE_LOCAL_SLOTS", "-1", "must be at least 0"),
        ("PIPELINE_HOOK_CONCURRENCY", "-1", "must be at least 0"),
        ("PIPELINE_DATABASE_URL", "mysql://root:hunter2@db/x", "begins with `postgresql:`"),
        ("PIPELINE_REDIS_URL", "localhost:6379", "begins with `redis:`"),
        ("PIPELINE_REDIS_URL", "sentinel://:hunter2@one:26379,two:26379/0", "should look like sentinel://"),
        ("PIPELINE_REDIS_URL", "sentinel://:hunter2@one:x/0?master=m", "should look like sentinel://"),
        ("PIPELINE_REDIS_URL", "sentinel://:hunter2@one,,two/0?master=m", "should look like sentinel://"),
        ("PIPELINE_REDIS_URL", "sentinel://:hunter2@one/zero?master=m", "should look like sentinel://"),
        ("PIPELINE_REDIS_URL", "sentinel://:hunter2@one/0?master=m&name=n", "should look like sentinel://"),
        ("PIPELINE_ALERT_URL", "alerts.example", "must begin with one of `https://`"),
        ("PIPELINE_ALERT_URL", "ftp://:hunter2@alerts.example", "must begin with one of `https://`"),
        ("PIPELINE_ALERT_URL", "slack+https:///hunter2", "name a host"),
        ("PIPELINE_ALERT_URL", "https://[::1/hunter2", "name a host"),
        ("PIPELINE_ALERT_URL", "mailto:ops@example.org?subject=x", "one address"),
        ("PIPELINE_ALERT_URL", "mailto:ops%0d%0aBcc:@example.org", "one address"),
        (
            "PIPELINE_ALERT_URL",
            '{"ops": "mailto:a@x.org,b@x.org"}',
            'the URL of "ops" must be `mailto:` and one address',
        ),
        ("PIPELINE_ALERT_URL", '{"o.ps": "https://alerts.example"}', '"o.ps" is no name of a receiver'),
        ("PIPELINE_ALERT_URL", '{"ops"', "is not JSON"),
        ("PIPELINE_ALERT_URL", "mailto:ops@example.org", "PIPELINE_SMTP_URL and PIPELINE_ALERT_SENDER"),
        ("PIPELINE_ALERT_SENDER", "Pipeline <pipeline@example.org>", "is no mail address"),
        ("PIPELINE_SMTP_URL", "http://mail.example", "must be one of `smtp://`"),
        ("PIPELINE_SMTP_URL", "smtp://ann:hunter2@mail.example:70000", "a port from 1 to 65535"),
        ("PIPELINE_SMTP_URL", "smtp+plain://ann:hunter2@mail.example", "in the clear"),
        ("PIPELINE_STAGE_BUDGET_SECONDS", "soon", "PIPELINE_STAGE_BUDGET_SECONDS"),
        ("PIPELINE_CLUSTER_DRIVER", "cloud", '"cloud" is not one of local, kubernetes, null'),
        ("PIPELINE_PLUGIN_NETWORKS", "10.0.0.1/8", "PIPELINE_PLUGIN_NETWORKS"),
        ("PIPELINE_HOST_PORTS", "30000-20000", "is no range of ports, as 20000-29999"),
        ("PIPELINE_HOST_PORTS", "1-70000", "is no range of ports"),
        ("PIPELINE_DEBUG_SECONDS", "0", "must be at least 1"),
        ("PIPELINE_LEASE_SECONDS", "1e308", "must be at most 1000000000"),
        ("PIPELINE_STAGE_THREADS", "99999999999999999999", "must be at most 1000000"),
        ("PIPELINE_RETENTION_DAYS", "100000", "must be at most 10000"),
        ("PIPELINE_HOOK_RETRY_MIN_SECONDS", "500", "must be at most PIPELINE_HOOK_RETRY_MAX_SECONDS (300)"),
        ("PIPELINE_NAMESPACES", "default,../x", '"../x" is no name of a Kubernetes namespace'),
        ("PIPELINE_SECRET_KEY", "hunter2", "must be keys of 32 bytes"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_would_be_right(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError) as refused:
        settings()
    assert name in refused.value.message
    assert words in refused.value.message
    assert "hunter2" not in refused.value.message


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_STAGE_BUDGET_SECONDS", "")
    assert settings().stage_budget_seconds == Settings().stage_budget_seconds


def test_opentelemetry_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline_core.settings.OPENTELEMETRY", ("opentelemetry-of-nobody",))
    with pytest.raises(ConfigurationError, match=r"pip install 'pipeline-service\[otel\]'"):
        Settings(otel=True)
    assert not Settings().otel
