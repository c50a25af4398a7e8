"""The packets of a check are such as the service sends."""

from __future__ import annotations

import json

import pytest

from pipeline_cli.checking import packets
from pipeline_core.plugins.packet import Packet
from pipeline_core.plugins.types import PluginType
from pipeline_core.taskset import schema

PACKET = packets.built_in(PluginType.ACCESS_GATE)


@pytest.mark.parametrize(
    "job",
    [
        PACKET["job"],
        packets.with_unicode(PACKET)["job"],
        packets.with_many_replicas(PACKET)["job"],
        packets.with_large_taskset(PACKET)["job"],
        packets.in_odd_order(PACKET)["job"],
    ],
)
def test_each_taskset_is_one_that_runs(job: packets.Document) -> None:
    schema.check(job)
    schema.check_size(job)


def test_the_large_one_is_as_large_as_is_said() -> None:
    job = packets.with_large_taskset(PACKET)["job"]
    assert len(json.dumps(job, separators=(",", ":"))) == packets.LARGE < schema.MAX_BYTES


def test_a_body_is_what_the_service_makes_of_the_packet() -> None:
    packet = packets.with_unicode(packets.with_many_factors(PACKET))
    assert packets.encoded(packet) == Packet(packet["factors"], packet["header"], packet["job"]).encode()


def test_the_odd_order_is_another_one() -> None:
    roles = packets.in_odd_order(PACKET)["job"]["spec"]["roles"]
    assert [role["name"] for role in roles] == ["other", "main"]
    assert [one["name"] for one in roles[1]["template"]["spec"]["containers"]] == ["side", "main"]
    assert roles[1]["template"]["spec"]["containers"][0]["command"] == ["sleep", "1"]
