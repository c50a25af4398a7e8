"""The output of a pod, from its termination messages."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline_core.clusters.kubernetes.results import output_of
from tests.unit.clusters.kubernetes.pods import NOW, ended, make


def pod(*messages: str, containers: int = 1, path: str = "/output", code: int = 0) -> dict[str, Any]:
    names = [{"name": f"c{number}", "terminationMessagePath": path} for number in range(max(containers, len(messages)))]
    phase = "Failed" if code else "Succeeded"
    return make(phase, *(ended(code, message=message) for message in messages), spec={"containers": names})


@pytest.mark.parametrize(
    ("given_pod", "output", "problem"),
    [
        (pod("a\n"), b"a\n", ""),
        (pod(""), None, ""),
        (pod("a", path="/dev/termination-log"), None, ""),
        (pod("a", code=1), None, ""),
        (pod("", "b", "c"), b"b", ""),
        (pod("é" * 2047), "é".encode() * 2047, ""),
        (pod("é" * 2048), None, "4096 bytes or more"),
        (pod("x" * 2457, containers=5), None, "2457 bytes or more"),
        (pod("x" * 2456, containers=5), b"x" * 2456, ""),
        (pod("a\N{REPLACEMENT CHARACTER}"), None, "not UTF-8"),
        (pod("Error on reading termination log /var/lib/x: denied"), None, "could not be read"),
    ],
)
def test_the_output_is_a_whole_message_of_a_container_that_succeeded(
    given_pod: dict[str, Any], output: bytes | None, problem: str
) -> None:
    found, said = output_of(given_pod, NOW)
    assert found == output
    assert problem in said if problem else not said
