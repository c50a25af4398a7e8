from __future__ import annotations

from pipeline_cli.doctor import lines
from pipeline_core.operations.doctor.rules import finding


def test_a_finding_is_shown_with_what_to_do_and_its_paragraph() -> None:
    found = finding("eviction", "Redis, maxmemory-policy", "it is allkeys-lru", "set it to noeviction")
    assert [*lines({"pipeline": "0.1.0", "Valkey": "9.1.0"}, [found])] == [
        "pipeline 0.1.0, Valkey 9.1.0",
        "✗ Redis, maxmemory-policy: it is allkeys-lru",
        "    set it to noeviction",
        "    docs/observing.md#eviction",
        "1 finding",
    ]


def test_nothing_wrong_is_said() -> None:
    assert [*lines({}, [])] == ["nothing is wrong"]
