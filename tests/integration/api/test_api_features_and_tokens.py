from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pipeline_core.auth.privileges import Privilege
from tests.builders import feature


def test_a_feature_is_registered_switched_ordered_and_deleted(admin: Any) -> None:
    assert admin.payload("GET", "/v1/features/list/all") == []
    for name in ("quota", "budget"):
        assert admin.payload("POST", "/v1/features", json=feature(name)) is None
    assert [found["name"] for found in admin.payload("GET", "/v1/features/list/platform/")] == ["budget", "quota"]
    assert admin.payload("GET", "/v1/features/list/nobody") == []
    assert admin.payload("GET", "/v1/features/detail/quota")["enabled"] is False
    admin.payload("PUT", "/v1/features/turn-on/quota")
    admin.payload("PUT", "/v1/features/turn-on/quota", json={})
    assert admin.payload("GET", "/v1/features/detail/quota")["enabled"] is True
    admin.payload("PUT", "/v1/features/turn-off/quota")
    keys = {"beforeKey": "AccessGate.budget.platform", "afterKey": "AccessGate.quota.platform"}
    admin.payload("PUT", "/v1/plugins/sequence", json={**keys, "pluginType": "AccessGate"})
    listed = admin.payload("GET", "/v1/plugins/list/AccessGate")
    assert [plugin["feature"] for plugin in listed] == ["budget", "quota"]
    plugin = admin.payload("GET", f"/v1/plugins/detail/{keys['beforeKey']}")
    assert plugin["sequence"] == 1
    assert (plugin["health"]["circuit"], plugin["health"]["recent"]) == ("closed", [])
    admin.payload("DELETE", "/v1/features/quota")
    answer = admin("DELETE", "/v1/features/quota")
    assert (answer.status_code, answer.json["code"]) == (404, "OPERATION_TARGET_NOT_FOUND")


def test_feature_lists_are_whole_unless_a_page_is_asked_for(admin: Any) -> None:
    for number in range(25):
        admin.payload("POST", "/v1/features", json=feature(f"f{number:02}"))
    answer = admin("GET", "/v1/features/list/all")
    assert (len(answer.json["payload"]), answer.headers["X-Total-Count"]) == (25, "25")
    assert [found["name"] for found in admin.payload("GET", "/v1/features/list/all?pageSize=2&pageNumber=3")] == [
        "f04",
        "f05",
    ]
    assert len(admin.payload("GET", "/v1/plugins/list/all?pageNumber=2")) == 5


def test_an_unknown_plugin_type_has_a_code_of_its_own(admin: Any) -> None:
    bad = feature("f")
    bad["plugins"][0]["pluginType"] = "Gate"
    for answer in (admin("GET", "/v1/plugins/list/Gate"), admin("POST", "/v1/features", json=bad)):
        assert (answer.status_code, answer.json["code"]) == (400, "UNSUPPORTED_PLUGIN_TYPE")


def test_a_missing_field_has_a_code_of_its_own(admin: Any) -> None:
    for method, path, body in (
        ("POST", "/v1/features", {"name": "f"}),
        ("POST", "/v1/job", {"userID": "ada"}),
        ("POST", "/v1/tokens", {"privileges": []}),
        ("PUT", "/v1/plugins/sequence", {}),
        ("PUT", "/v1/tokens/admin", {"token": ""}),
        ("DELETE", "/v1/tokens", {}),
        ("POST", "/v1/hooks/redeliver", {}),
    ):
        answer = admin(method, path, json=body)
        assert (answer.status_code, answer.json["code"]) == (400, "LACK_OF_PARAM"), (path, answer.text)


def test_somebody_elses_feature_may_not_be_touched(admin: Any, bearer: Callable[..., Any]) -> None:
    admin.payload("POST", "/v1/features", json=feature("quota"))
    stranger = bearer(Privilege.WRITE_FEATURE, forwho="bob")
    answer = stranger("DELETE", "/v1/features/quota")
    assert (answer.status_code, answer.json["code"]) == (403, "PERMISSION_DENIED")


def test_a_token_is_made_changed_and_revoked(app: Any, admin: Any) -> None:
    made = admin.payload("POST", "/v1/tokens", json={"privileges": ["read-job"], "forwho": "ada", "note": "n"})
    assert len(made["token"]) == 24
    client = app.test_client()

    def status(path: str = "/v1/job/list") -> int:
        return int(client.get(path, headers={"Authorization": f"Bearer {made['token']}"}).status_code)

    assert (status(), status("/v1/tokens")) == (200, 403)
    admin.payload("PUT", "/v1/tokens/normal", json={"id": made["id"], "privileges": ["read_token"]})
    assert (status(), status("/v1/tokens")) == (403, 200)
    answer = admin("GET", "/v1/tokens?pageSize=1")
    (listed,) = answer.json["payload"]
    assert listed["privileges"] == ["read_token"]
    assert made["token"] not in answer.text
    assert answer.headers["X-Total-Count"] == "1"
    admin.payload("DELETE", "/v1/tokens", json={"token": made["token"]})
    assert status() == 401
    again = admin.payload("POST", "/v1/tokens", json={"privileges": ["read_job"], "forwho": "ada"})
    admin.payload("DELETE", f"/v1/tokens/{again['id']}")
    assert admin("DELETE", f"/v1/tokens/{again['id']}").status_code == 404


def test_changing_the_admins_password_ends_the_old_one(app: Any, admin: Any) -> None:
    admin.payload("PUT", "/v1/tokens/admin", json={"token": "a long password"})
    assert admin("GET", "/v1/audit").status_code == 401
    admin.token = "a long password"
    assert [entry["action"] for entry in admin.payload("GET", "/v1/audit/?pageSize=1")] == ["admin.password.change"]


def test_the_audit_log_knows_the_request(admin: Any) -> None:
    admin.payload("POST", "/v1/features", json=feature("quota"), headers={"X-Request-ID": "request-7"})
    (entry,) = admin.payload("GET", "/v1/audit")
    assert (entry["requestID"], entry["address"], entry["actor"]) == ("request-7", "127.0.0.1", "admin")


def test_whoever_has_a_token_may_ask_whose_it_is(admin: Any, bearer: Callable[..., Any]) -> None:
    own = bearer(Privilege.READ_JOB).payload("GET", "/v1/whoami")
    assert (own["admin"], own["privileges"], own["ownOnly"], own["expiresAt"]) == (False, ["read_job"], False, None)
    (listed,) = [token for token in admin.payload("GET", "/v1/tokens") if token["id"] == own["id"]]
    assert listed["forwho"] == own["forwho"]
    everything = admin.payload("GET", "/v1/whoami")
    assert (everything["forwho"], everything["admin"], everything["id"]) == ("admin", True, "")
    assert everything["privileges"] == [*Privilege]
