from __future__ import annotations

from collections.abc import Callable

import pytest

from api.app import addresses_development_run
from tests.conftest import new_api_app


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1:8080", True),
        ("127.0.0.2", True),
        ("[::1]:8080", True),
        ("localhost:8080", True),
        ("LOCALHOST", True),
        ("pipeline.localhost", True),
        ("dev.example:8080", True),
        ("evil.example:8080", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("0.0.0.0:8080", False),
        ("192.0.2.1", False),
        ("", False),
    ],
)
def test_a_host_means_this_machine_or_not(host: str, own: bool) -> None:
    assert addresses_development_run(host, "http://dev.example:8080/") is own


def test_only_a_development_run_refuses_other_hosts(
    monkeypatch: pytest.MonkeyPatch, fresh_runtime: Callable[[], None]
) -> None:
    for development, status in (("1", 403), ("0", 200)):
        monkeypatch.setenv("PIPELINE_DEVELOPMENT", development)
        fresh_runtime()
        client = new_api_app().test_client()
        answer = client.get("/healthz", headers={"Host": "evil.example:8080"})
        assert answer.status_code == status
        assert client.get("/healthz", headers={"Host": "localhost:8080"}).status_code == 200
    monkeypatch.setenv("PIPELINE_DEVELOPMENT", "1")
    fresh_runtime()
    refused = new_api_app().test_client().get("/v1/version", headers={"Host": "evil.example"})
    assert refused.json is not None
    assert refused.json["code"] == "PERMISSION_DENIED"
    assert "evil.example" in refused.json["msg"]
