from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from api.app import check_startup
from pipeline_core.database import transaction
from pipeline_core.errors import ConfigurationError
from pipeline_core.operations import cluster_health, readiness
from pipeline_core.runtime import restart
from pipeline_core.settings import settings

AWAY = "127.0.0.1:1"


@pytest.fixture
def without_database(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_DATABASE_URL", f"postgresql://nobody@{AWAY}/nothing")
    restart()


def test_ready_when_all_is_there(admin: Any) -> None:
    assert admin("GET", "/readyz").json["code"] == "OPERATION_SUCCEEDED"


def test_readiness_names_a_cluster_that_cannot_be_used_and_stays(admin: Any) -> None:
    name = settings().cluster_name
    cluster_health.report(name, problem="the service lacks rights")
    answer = admin("GET", "/readyz")
    assert answer.status_code == 200
    assert answer.json["payload"]["cluster"].startswith(f"The cluster {name} cannot be used since 2")
    assert answer.json["payload"]["cluster"].endswith("Z: the service lacks rights")
    cluster_health.report(name)
    assert admin("GET", "/readyz").json["payload"] == {"cluster": ""}


def test_metrics_count_what_is_recorded(admin: Any) -> None:
    admin.submit()
    text = admin("GET", "/metrics").text
    assert "pipeline_database_up 1.0" in text
    assert "# TYPE pipeline_jobs gauge" in text
    assert 'pipeline_jobs{state="suspended"}' in text


def test_without_a_database_requests_are_answered_503_and_the_process_lives(admin: Any, without_database: None) -> None:
    for method, path in (("GET", "/v1/job/list"), ("POST", "/v1/job"), ("GET", "/readyz")):
        answer = admin(method, path, **({"json": {}} if method == "POST" else {}))
        assert (answer.status_code, answer.json["code"]) == (503, "INTERNAL_ERROR")
        assert int(answer.headers["Retry-After"]) > 0
    assert admin("GET", "/healthz").status_code == 200
    assert "database" in admin("GET", "/readyz").json["errors"]
    assert admin("GET", "/metrics").status_code == 200


def test_readiness_names_a_redis_that_is_away(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPELINE_REDIS_URL", f"redis://{AWAY}/0")
    restart()
    answer = admin("GET", "/readyz")
    assert (answer.status_code, list(answer.json["errors"])) == (503, ["redis"])


def test_a_process_without_an_admins_password_does_not_start(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    check_startup()
    monkeypatch.delenv("PIPELINE_DEVELOPMENT")
    restart()
    with pytest.raises(ConfigurationError, match="PIPELINE_ADMIN_PASSWORD"):
        check_startup()


def test_a_process_starts_while_the_database_is_away(without_database: None) -> None:
    check_startup()


def test_readiness_names_migrations_that_lack(admin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness.revisions, "head", lambda: "v9999")
    answer = admin("GET", "/readyz")
    assert answer.status_code == 503
    assert "v9999" in answer.json["msg"]


def test_a_process_stays_ready_when_a_later_version_has_upgraded_the_database(admin: Any) -> None:
    with transaction() as session:
        session.execute(text("UPDATE alembic_version SET version_num = 'v9999'"))
    try:
        assert admin("GET", "/readyz").status_code == 200
    finally:
        with transaction() as session:
            session.execute(
                text("UPDATE alembic_version SET version_num = :head"), {"head": readiness.revisions.head()}
            )
