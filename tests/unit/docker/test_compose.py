"""What ships for containers, as far as it can be checked without an engine."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipeline_core.settings import Settings, variable

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
COMPOSE: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
REQUIRED = ":?must be set in docker/.env"
"""Of a variable without a default. podman-compose knows it only with a message."""
OURS = [name for name, service in SERVICES.items() if "build" in service]


@pytest.mark.parametrize("name", OURS)
def test_our_containers_can_write_nothing_and_become_nobody(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


@pytest.mark.parametrize("name", OURS)
def test_variables_are_settings_of_the_service(name: str) -> None:
    known = {variable(setting) for setting in fields(Settings)}
    given = {key for key in SERVICES[name]["environment"] if key.startswith("PIPELINE_")}
    assert given <= known
    assert "PIPELINE_DEVELOPMENT" not in given


def test_every_secret_must_be_given() -> None:
    text = (DOCKER / "compose.yaml").read_text()
    secrets = set(re.findall(r"\$\{([A-Z_]*(?:PASSWORD|KEY))(.*?)\}", text))
    assert {name for name, _ in secrets} == {
        "POSTGRES_PASSWORD",
        "REDIS_PASSWORD",
        "PIPELINE_SECRET_KEY",
        "PIPELINE_ADMIN_PASSWORD",
        "FLOWER_PASSWORD",
    }
    assert {required for _, required in secrets} == {REQUIRED}, "none has a default"
    example = (DOCKER / "env.example").read_text()
    assert all(f"\n{name}=\n" in example for name, _ in secrets)


def test_redis_keeps_what_waits_in_it() -> None:
    redis = SERVICES["redis"]["command"]
    for words in ("--appendonly yes", "--maxmemory-policy noeviction", "--requirepass"):
        assert words in redis


def test_flower_asks_for_a_password_and_knows_no_secret_but_the_broker_s() -> None:
    flower = SERVICES["flower"]
    assert flower["environment"]["FLOWER_BASIC_AUTH"] == f"admin:${{FLOWER_PASSWORD{REQUIRED}}}"
    assert set(flower["environment"]) == {"FLOWER_BASIC_AUTH", "PIPELINE_REDIS_URL"}
    assert "UNAUTHENTICATED" not in (DOCKER / "compose.yaml").read_text()


@pytest.mark.parametrize("name", [name for name in SERVICES if "ports" in SERVICES[name]])
def test_ports_are_open_to_this_machine_alone(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name]["ports"])


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    copied = [
        source
        for line in (DOCKER / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for source in line.split()[1:-1]
    ]
    kept = {line[1:] for line in (DOCKER / "Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")}
    assert copied
    assert set(copied) == kept
    assert all((ROOT / source).exists() for source in copied)


def test_the_image_runs_as_a_user_without_rights() -> None:
    assert re.search(r"^USER 10001:10001$", (DOCKER / "Dockerfile").read_text(), re.M)
