"""What a plugin is sent, and where to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from pipeline_core.plugins.types import PluginType


@dataclass(frozen=True, slots=True)
class Packet:
    """What a stage shows its plugins. `job` is the user's job for a translator and the TaskSet for all others."""

    factors: Mapping[str, Sequence[Mapping[str, Any]]]
    header: Mapping[str, Any]
    job: Mapping[str, Any]

    def encode(self) -> bytes:
        """The request's body; encode once and send it to every plugin of the stage.

        ASCII only, so that text which has no UTF-8 form cannot get in the way. Raises ValueError on NaN and infinities.
        """
        document = {"factors": self.factors, "header": self.header, "job": self.job}
        return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The part of a plugin that a call needs. `key` is unique among plugins; the secrets are in clear.

    `timeout_seconds` covers one attempt, from resolving the name to the answer's last byte.
    """

    key: str
    type: PluginType
    address: str
    authorization: str = field(default="", repr=False)
    signing_secret: str = field(default="", repr=False)
    timeout_seconds: float = 30.0
    max_attempts: int = 3


@dataclass(frozen=True, slots=True)
class Asking:
    """One question to one plugin. `n` grows when the plugin is asked anew after a suspension."""

    job_id: str
    stage: str
    plugin_key: str
    n: int = 1

    @property
    def idempotency_key(self) -> str:
        """`{jobID}:{stage}:{plugin key}:{n}`, the same for every attempt; what a header cannot carry is quoted."""
        return f"{header_text(self.job_id)}:{self.stage}:{header_text(self.plugin_key)}:{self.n}"


def header_text(text: str) -> str:
    """`text` with everything percent-encoded that is not visible ASCII."""
    return quote(text, safe=_VISIBLE, errors="replace")


_VISIBLE = "".join(chr(code) for code in range(0x21, 0x7F))
