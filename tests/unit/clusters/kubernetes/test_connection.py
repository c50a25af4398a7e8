"""Kubeconfigs that do not suffice are refused with what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline_core.clusters.kubernetes.connection import load_client
from pipeline_core.errors import ConfigurationError
from tests.unit.clusters.test_factory import KUBECONFIG


@pytest.mark.parametrize(
    ("text", "context", "message"),
    [
        ("a: [b", "", "is no YAML"),
        ("", "", "is no kubeconfig: it has no contexts"),
        ("just text", "", "is no kubeconfig: it has no contexts"),
        (KUBECONFIG, "other", 'PIPELINE_KUBE_CONTEXT is "other", but .* has no such context; it has only'),
        (KUBECONFIG.replace("current-context: only", ""), "", "the cluster's address cannot be determined"),
        (KUBECONFIG.replace("cluster: here", "cluster: there"), "", "the cluster's address cannot be determined"),
        (
            KUBECONFIG.replace("http:", "https:").replace("{token: hush}", "{client-certificate: missing.crt}"),
            "",
            "cannot be determined: .*missing.crt",
        ),
    ],
)
def test_a_file_that_does_not_suffice_is_refused(tmp_path: Path, text: str, context: str, message: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(ConfigurationError, match=message) as caught:
        load_client(str(path), context)
    assert str(path) in caught.value.message
    assert "hush" not in caught.value.message


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    for path, why in ((tmp_path / "missing", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(ConfigurationError, match=rf"PIPELINE_KUBECONFIG \({path}\) cannot be read: {why}"):
            load_client(str(path), "")


def test_the_client_of_a_context_has_its_address_and_token(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    configuration = load_client(str(path), "only").configuration
    assert configuration.host == "http://127.0.0.1:1"
    assert "hush" in str(configuration.get_api_key_with_prefix("BearerToken") or configuration.api_key)
