"""What an answer means to the service."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline_cli.checking import meaning
from pipeline_cli.checking.exchange import Exchange
from pipeline_cli.checking.packets import encoded
from pipeline_core.plugins.errors import BadAnswer, JobRejected, PluginUnavailable
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.transport import Response
from pipeline_core.plugins.types import PluginType
from tests.builders import taskset


def value(kind: PluginType, answer: Any, status: int = 200) -> Any:
    endpoint = Endpoint(f"{kind}.t.t", kind, "http://x/")
    exchange = Exchange("http://x/", {}, b"", Response(status, {}, encoded(answer)))
    return meaning.value(endpoint, {"job": taskset()}, exchange, "j1", "default")


def test_a_translation_is_named_after_its_job() -> None:
    assert value(PluginType.TEMPLATE_TRANSLATOR, taskset())["metadata"] == {"name": "j1", "namespace": "default"}


def test_a_translator_rejects_a_job() -> None:
    with pytest.raises(JobRejected, match="no image"):
        value(PluginType.TEMPLATE_TRANSLATOR, {"reason": "no image"}, 422)


@pytest.mark.parametrize("kind", [kind for kind in PluginType if kind is not PluginType.LIFE_HOOK])
def test_a_list_with_a_number_means_nothing(kind: PluginType) -> None:
    with pytest.raises(BadAnswer):
        value(kind, [1])


def test_a_failed_exchange_raises_its_error() -> None:
    endpoint = Endpoint("AccessGate.t.t", PluginType.ACCESS_GATE, "http://x/")
    exchange = Exchange("http://x/", {}, b"", error=PluginUnavailable("it is away"))
    with pytest.raises(PluginUnavailable, match="it is away"):
        meaning.value(endpoint, {}, exchange, "j1", "default")
