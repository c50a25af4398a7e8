"""What a worker does with a step that it has claimed, by how often the step was claimed before without being finished.

A worker runs many steps at a time, so the death of its process leaves open which of them was the cause. A step that has seen that
happen twice is tried alone, in a process of its own: only there a further death is certainly the step's.
"""

from __future__ import annotations

from enum import StrEnum

TOGETHER_CLAIMS = 2
"""How often a step is tried beside others."""


class Trial(StrEnum):
    """How a step is tried: beside others, alone in a process, or no more."""

    TOGETHER = "together"
    ALONE = "alone"
    GIVEN_UP = "given up"


def trial(claim_count: int, max_claims: int) -> Trial:
    """How to try a step that was claimed `claim_count` times, this claim included, and may be begun `max_claims` times.

    `max_claims` is at least 2, so that the last trial before the step is given up is one alone.
    """
    if claim_count > max_claims:
        return Trial.GIVEN_UP
    return Trial.TOGETHER if claim_count <= min(TOGETHER_CLAIMS, max_claims - 1) else Trial.ALONE
