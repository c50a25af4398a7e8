"""AccessGate: passes, suspends or stops a job by the value of `gate` in its header."""

from __future__ import annotations

from typing import Any

REASONS = {
    "pass": "nothing speaks against it",
    "suspend": "the header asks for somebody to have a look",
    "stop": "the header asks to stop here",
}


def decide(packet: dict[str, Any]) -> dict[str, str]:
    """One of the three decisions, with its reason; a job without `gate` passes."""
    wanted = packet["header"].get("gate", "pass")
    if not isinstance(wanted, str) or wanted not in REASONS:
        return {"decision": "stop", "reason": f"gate in the header is {wanted!r}; it may be pass, suspend or stop"}
    return {"decision": wanted, "reason": REASONS[wanted]}
