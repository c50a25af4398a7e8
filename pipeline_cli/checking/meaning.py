"""What an answer means to the service, by the code by which the service reads it."""

from __future__ import annotations

from typing import Any

from pipeline_cli.checking.exchange import Exchange
from pipeline_cli.checking.packets import Document
from pipeline_core.plugins import answers
from pipeline_core.plugins.client import check_status
from pipeline_core.plugins.errors import BadAnswer
from pipeline_core.plugins.packet import Endpoint
from pipeline_core.plugins.types import PluginType
from pipeline_core.stages import reading


def value(endpoint: Endpoint, packet: Document, exchange: Exchange, job_id: str, namespace: str) -> Any:
    """What the answer to a packet means. `namespace` is for a translator's TaskSet that names none.

    Raises CallFailed, as the service would have it.
    """
    if exchange.error or exchange.response is None:
        raise exchange.error or BadAnswer("there is no answer")
    check_status(exchange.response, endpoint)
    body = exchange.response.body
    match endpoint.type:
        case PluginType.TEMPLATE_TRANSLATOR:
            return reading.translation(body, job_id, namespace)
        case PluginType.FACTOR_GENERATOR:
            return answers.factors(body)
        case PluginType.ACCESS_GATE:
            return answers.gate(body)
        case PluginType.TEMPLATE_DECORATOR:
            return reading.decoration(packet["job"], body)
        case PluginType.SCHEDULER_BINDER:
            return reading.binding(packet["job"], body)
        case PluginType.LIFE_HOOK:
            return answers.acknowledgement(body)
