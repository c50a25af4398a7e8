"""What a token may allow, and the names that older texts use for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Privilege(StrEnum):
    """There is no `admin` among them: the admin may do everything, by password."""

    READ_JOB = "read_job"
    WRITE_JOB = "write_job"
    APPROVE_JOB = "approve_job"
    READ_FEATURE = "read_feature"
    WRITE_FEATURE = "write_feature"
    READ_TOKEN = "read_token"
    WRITE_TOKEN = "write_token"


NAMES: Mapping[str, Privilege] = MappingProxyType(
    {
        **{privilege.value: privilege for privilege in Privilege},
        "read-job": Privilege.READ_JOB,
        "write-job": Privilege.WRITE_JOB,
        "read-plugin": Privilege.READ_FEATURE,
        "write-plugin": Privilege.WRITE_FEATURE,
        "register-plugin": Privilege.WRITE_FEATURE,
    }
)
"""Every name that is understood on input; what is stored is the privilege's own."""
