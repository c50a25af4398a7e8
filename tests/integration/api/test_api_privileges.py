"""Each route with each privilege."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.auth.privileges import Privilege

RESUME = ("PUT", "/v1/job/resume/j1")
ALSO = {RESUME: "approve_job", ("GET", "/v1/search?prefix=x"): "read_feature"}
"""The other privilege with which a route is open."""

NEEDS = {
    ("POST", "/v1/job"): "write_job",
    ("POST", "/v1/job/explain"): "write_job",
    ("GET", "/v1/job/explain/j1"): "read_job",
    ("GET", "/v1/job/blame/j1"): "read_job",
    ("PUT", "/v1/job/stop/j1"): "write_job",
    ("PUT", "/v1/job/resume/j1"): "write_job",
    ("POST", "/v1/job/retry/j1"): "write_job",
    ("GET", "/v1/job/config/j1"): "read_job",
    ("GET", "/v1/job/taskset/j1"): "read_job",
    ("GET", "/v1/job/detail/j1"): "read_job",
    ("GET", "/v1/job/list"): "read_job",
    ("GET", "/v1/job/count"): "read_job",
    ("GET", "/v1/job/packet/j1?stage=gates"): "read_job",
    ("GET", "/v1/job/packets?stage=gates"): "read_job",
    ("GET", "/v1/job/trail/j1"): "read_job",
    ("GET", "/v1/job/events/j1"): "read_job",
    ("GET", "/v1/job/logs/j1"): "read_job",
    ("GET", "/v1/events"): "read_job",
    ("GET", "/v1/flows"): "read_job",
    ("POST", "/v1/flows"): "write_job",
    ("POST", "/v1/flows/import"): "write_job",
    ("GET", "/v1/flows/export"): "read_job",
    ("GET", "/v1/flows/f"): "read_job",
    ("PUT", "/v1/flows/f"): "write_job",
    ("DELETE", "/v1/flows/f"): "write_job",
    ("POST", "/v1/flows/f/run"): "write_job",
    ("POST", "/v1/flows/f/tasks/t/run"): "write_job",
    ("POST", "/v1/flows/f/tasks/t/debug"): "write_job",
    ("GET", "/v1/flows/f/runs"): "read_job",
    ("POST", "/v1/flows/check"): "write_job",
    ("GET", "/v1/flows/f/layout"): "read_job",
    ("GET", "/v1/flows/f/grid"): "read_job",
    ("GET", "/v1/runs/r1/layout"): "read_job",
    ("GET", "/v1/flows/f/schedule"): "read_job",
    ("PUT", "/v1/flows/f/schedule"): "write_job",
    ("POST", "/v1/flows/f/backfill"): "write_job",
    ("GET", "/v1/flows/f/backfills"): "read_job",
    ("GET", "/v1/backfills/b1"): "read_job",
    ("PUT", "/v1/backfills/b1"): "write_job",
    ("GET", "/v1/runs"): "read_job",
    ("GET", "/v1/runs/r1"): "read_job",
    ("PUT", "/v1/runs/r1/stop"): "write_job",
    ("POST", "/v1/runs/r1/retry"): "write_job",
    ("PUT", "/v1/runs/r1/dismiss"): "write_job",
    ("DELETE", "/v1/runs/r1"): "write_job",
    ("PUT", "/v1/runs/r1/tasks/t"): "write_job",
    ("GET", "/v1/runs/r1/logs"): "read_job",
    ("GET", "/v1/runs/r1/metrics"): "read_job",
    ("GET", "/v1/templates"): "read_job",
    ("POST", "/v1/templates"): "write_feature",
    ("GET", "/v1/templates/t"): "read_job",
    ("DELETE", "/v1/templates/t"): "write_feature",
    ("POST", "/v1/features"): "write_feature",
    ("POST", "/v1/features/what-if"): "read_job",
    ("DELETE", "/v1/features/f"): "write_feature",
    ("PUT", "/v1/features/turn-on/f"): "write_feature",
    ("PUT", "/v1/features/turn-off/f"): "write_feature",
    ("GET", "/v1/features/list/all"): "read_feature",
    ("GET", "/v1/features/detail/f"): "read_feature",
    ("PUT", "/v1/plugins/sequence"): "write_feature",
    ("PUT", "/v1/plugins/promote/k"): "write_feature",
    ("GET", "/v1/plugins/shadow/k"): "read_job",
    ("GET", "/v1/plugins/detail/k"): "read_feature",
    ("GET", "/v1/plugins/list/all"): "read_feature",
    ("GET", "/v1/hooks/deliveries"): "read_feature",
    ("POST", "/v1/hooks/redeliver/d1"): "write_feature",
    ("POST", "/v1/hooks/redeliver?plugin=k"): "write_feature",
    ("POST", "/v1/tokens"): "write_token",
    ("PUT", "/v1/tokens/normal"): "write_token",
    ("DELETE", "/v1/tokens"): "write_token",
    ("DELETE", "/v1/tokens/t1"): "write_token",
    ("GET", "/v1/tokens"): "read_token",
    ("PUT", "/v1/tokens/admin"): "admin",
    ("GET", "/v1/audit"): "admin",
    ("GET", "/v1/status"): "read_job",
    ("PUT", "/v1/secrets/rotate"): "admin",
    ("GET", "/v1/whoami"): "any",
    ("GET", "/v1/search?prefix=x"): "read_job",
}
SIGNING_IN = [("POST", "/v1/session"), ("DELETE", "/v1/session")]
OPEN = [("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/v1/version")]


def test_each_route_is_open_to_its_privilege_and_to_the_admin_alone(admin: Any, bearer: Callable[..., Any]) -> None:
    clients = {privilege: bearer(privilege) for privilege in Privilege}
    for (method, path), needed in NEEDS.items():
        body = {} if method == "GET" else {"json": {}}
        for privilege, client in clients.items():
            answer = client(method, path, **body)
            if needed in (privilege, "any") or ALSO.get((method, path)) == privilege:
                assert answer.status_code in (200, 400, 404), (method, path, privilege, answer.text)
            else:
                assert (answer.status_code, answer.json["code"]) == (403, "PERMISSION_DENIED"), (
                    method,
                    path,
                    privilege,
                )
        assert admin(method, path, **body).status_code in (200, 400, 404), (method, path)


def test_the_table_has_every_route(app: Any) -> None:
    adapter = app.url_map.bind("localhost")
    found = {(adapter.match(path.split("?")[0], method)[0]) for method, path in [*NEEDS, *SIGNING_IN, *OPEN]}
    own = {
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if rule.endpoint != "docs_asset"
        and "api-docs" not in rule.endpoint
        and not rule.endpoint.startswith("console.")
    }
    assert found == own


@pytest.mark.parametrize(("method", "path"), OPEN)
def test_operators_need_no_token(app: Any, method: str, path: str) -> None:
    assert app.test_client().open(path, method=method).status_code == 200


def test_every_other_route_needs_one(app: Any) -> None:
    client = app.test_client()
    for method, path in NEEDS:
        answer = client.open(path, method=method)
        assert (answer.status_code, answer.json["code"]) == (401, "PERMISSION_DENIED"), (method, path)
        assert client.open(f"{path.split('?')[0]}/", method=method).status_code == 401, path


def test_several_privileges_add_up(bearer: Callable[..., Any]) -> None:
    client = bearer(Privilege.READ_JOB, Privilege.WRITE_JOB)
    assert client.payload("GET", f"/v1/job/detail/{client.submit()}")["job"]["userID"] == "ada"
