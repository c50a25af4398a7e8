from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline_core.database import revisions
from pipeline_core.operations import health_checks
from pipeline_core.operations.doctor import rules
from pipeline_core.operations.doctor.facts import Clock, DatabaseFacts, Disk, Facts, Library, RedisFacts
from pipeline_core.settings import Settings
from tests.pages import ROOT

NEAR = Clock(0.0, 0.001)
DATABASE = DatabaseFacts(
    version=160004,
    version_text="16.4",
    revision=revisions.head(),
    clock=NEAR,
    connection_limits={"max_connections": 200},
    parameters={"fsync": "on", "synchronous_commit": "remote_apply"},
    in_recovery=False,
)
INFO = {"redis_version": "7.2.4", "role": "master", "maxmemory": "1000", "used_memory": "100", "maxclients": "100"}
REDIS = RedisFacts(clock=NEAR, info=INFO)
RIGHT = Facts(
    version="1", disk=Disk(Path("/data"), 2 * 10**9, 10**11), database=DATABASE, redis=REDIS, other_processes=4
)

WRONG: list[tuple[str, dict[str, Any], str, str]] = [
    ("database", {"version": 130012}, "database-version", "14 or newer"),
    ("database", {"revision": None}, "migrations", "it is at nothing"),
    ("database", {"parameters": {"fsync": "off"}}, "durability", "fsync"),
    ("database", {"in_recovery": True}, "read-only", "it is a standby"),
    ("database", {"connection_limits": {"max_connections": 60}}, "connections", "4 processes may open 16 each: 64"),
    ("database", {"clock": Clock(-90.0, 0.001)}, "clocks", "90 s behind this host's"),
    ("database", {"clock": Clock(0.0, 0.15)}, "latency", "150 ms"),
    ("database", {"undecryptable": 2}, "secret-key", "2 stored secrets"),
    ("database", {"admin_error": "There is no admin password"}, "admin-password", "no admin password"),
    ("redis", {"clock": Clock(7.0, 0.001)}, "clocks", "7 s ahead of"),
    ("redis", {"info": INFO | {"maxmemory_policy": "volatile-ttl"}}, "eviction", "volatile-ttl"),
    ("redis", {"info": INFO | {"used_memory": "900"}}, "redis-memory", "90%"),
    ("redis", {"info": INFO | {"redis_version": "5.0.14"}}, "redis-version", "6.2 or newer"),
    ("redis", {"info": INFO | {"role": "slave"}}, "read-only", "it is a replica"),
    ("redis", {"info": INFO | {"aof_last_write_status": "err"}}, "redis-disk", "it is err"),
    ("redis", {"info": INFO | {"connected_clients": "90"}}, "redis-clients", "90 of 100"),
]


def test_nothing_is_wrong_with_what_is_right() -> None:
    assert rules.findings(RIGHT, Settings()) == []


@pytest.mark.parametrize(("part", "changed", "check", "text"), WRONG, ids=[check for _, _, check, _ in WRONG])
def test_each_wrong_fact_of_a_server_is_one_finding(part: str, changed: dict[str, Any], check: str, text: str) -> None:
    facts = replace(RIGHT, **{part: replace(getattr(RIGHT, part), **changed)})
    (only,) = rules.findings(facts, Settings())
    assert only.check == check
    assert text in only.wrong + only.where
    assert only.docs == f"docs/observing.md#{check}"


def test_a_later_version_s_schema_is_right() -> None:
    assert rules.findings(replace(RIGHT, database=replace(DATABASE, revision="9999")), Settings()) == []


def test_what_is_there_no_more_is_named_with_its_reason() -> None:
    facts = replace(RIGHT, database=None, database_error="refused", redis=None, redis_error="timed out")
    assert [(one.check, one.wrong) for one in rules.findings(facts, Settings())] == [
        ("database", "refused"),
        ("redis", "timed out"),
    ]


@pytest.mark.parametrize(
    ("disk", "text"),
    [
        (Disk(Path("/data"), 10**8, 10**11), "95.4 MiB of 93.1 GiB are free"),
        (Disk(Path("/data"), error="No such file"), "No such file"),
    ],
)
def test_a_disk_that_is_full_or_away_is_a_finding(disk: Disk, text: str) -> None:
    (only,) = rules.findings(replace(RIGHT, disk=disk), Settings())
    assert (only.check, only.wrong, only.where) == ("disk", text, "/data")


def test_libraries_variables_and_the_cluster() -> None:
    facts = replace(
        RIGHT,
        wrong_libraries=(Library("celery", ">=5.7", "4.4"), Library("redis", ">=8", None)),
        unknown_variables=("PIPELINE_LEASE_SECOND", "PIPELINE_ZZZ"),
        cluster_error="the service lacks rights",
    )
    found = rules.findings(facts, Settings())
    assert [(one.check, one.where) for one in found] == [
        ("libraries", "celery"),
        ("libraries", "redis"),
        ("settings", "PIPELINE_LEASE_SECOND"),
        ("settings", "PIPELINE_ZZZ"),
        ("cluster", "the cluster local"),
    ]
    assert found[2].advice == "set PIPELINE_LEASE_SECONDS if that is meant, and remove PIPELINE_LEASE_SECOND"
    assert found[3].advice == "remove it"


def test_every_paragraph_is_there_and_every_problem_has_its_advice() -> None:
    page = (ROOT / "docs/observing.md").read_text()
    source = "".join(Path(module.__file__).read_text() for module in (rules, health_checks) if module.__file__)
    checks = set(re.findall(r'finding\(\s*"([\w-]+)"', source))
    assert checks >= {check for _, _, check, _ in WRONG}
    assert {check for check in checks if f"### {check}\n" not in page} == set()
    alerts = set(re.findall(r'Problem\(\s*"(\w+)"', source)) - {"PipelineRedisAway"}
    assert alerts == set(rules.ADVICE)
    stuck = (ROOT / "docs/when-something-is-stuck.md").read_text()
    assert {alert for alert in alerts if f"### {alert}\n" not in stuck} == set()
