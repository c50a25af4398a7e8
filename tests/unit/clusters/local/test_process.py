"""Variables and their expansion in the local cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.local.process import compose, expand, taskset_variables

VARIABLES = {"A": "1", "B": "$(A)", "EMPTY": ""}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain", "plain"),
        ("$(A)", "1"),
        ("x$(A)y$(A)", "x1y1"),
        ("$(EMPTY)", ""),
        ("$(B)", "$(A)"),
        ("$(UNKNOWN)", "$(UNKNOWN)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$$$$", "$$"),
        ("$", "$"),
        ("$A", "$A"),
        ("${A}", "${A}"),
        ("$(A", "$(A"),
        ("$(A $(A)", "$(A $(A)"),
        ("$()", "$()"),
        ("cost: 5$", "cost: 5$"),
    ],
)
def test_variables_are_expanded_as_kubernetes_does(text: str, expected: str) -> None:
    assert expand(text, VARIABLES) == expected


@given(st.text())
def test_doubling_every_dollar_protects_any_text(text: str) -> None:
    assert expand(text.replace("$", "$$"), VARIABLES) == text


def test_a_variable_sees_those_before_it_alone() -> None:
    own = [("FIRST", "$(SECOND)"), ("SECOND", "$(ROLE)!"), ("THIRD", "$(SECOND)"), ("POD", {"field": "metadata.name"})]
    assert compose({"PATH": "/bin"}, {"ROLE": "ps"}, own, {"metadata.name": "pod"}) == {
        "ROLE": "ps",
        "PATH": "/bin",
        "FIRST": "$(SECOND)",
        "SECOND": "ps!",
        "THIRD": "ps!",
        "POD": "pod",
    }


def test_a_container_may_set_what_every_process_has() -> None:
    assert compose({"PATH": "/bin"}, {}, [("PATH", "/mine:$(PATH)")], {}) == {"PATH": "/mine:/bin"}


def test_hosts_of_every_role_are_named() -> None:
    variables = taskset_variables("ns", "set", "ps", 1, {"ps": 1, "param-worker": 3})
    assert variables["TASKROLE_HOSTS_PS"] == "127.0.0.1"
    assert variables["TASKROLE_HOSTS_PARAM_WORKER"] == "127.0.0.1,127.0.0.1,127.0.0.1"
