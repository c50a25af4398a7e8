"""FactorGenerator: three opinions on one topic, `priority`, from 1 (may wait) to 10 (at once).

None knows of the others; `priority_binder` weighs them.
"""

from __future__ import annotations

from typing import Any

TOPIC = "priority"
SMALL = 4


def factor(advice: int, reason: str) -> dict[str, str]:
    return {"topic": TOPIC, "advice": str(advice), "reason": reason}


def by_user(packet: dict[str, Any]) -> dict[str, str]:
    """Who asks: `user_role` in the job's header."""
    role = packet["header"].get("user_role")
    return factor(10, f"user is {role}") if role in ("admin", "master") else factor(5, "an ordinary user")


def by_size(packet: dict[str, Any]) -> dict[str, str]:
    """What is asked for: the number of replicas in the TaskSet."""
    replicas = sum(role.get("replicas", 1) for role in packet["job"]["spec"]["roles"])
    return factor(4, "a small job") if replicas <= SMALL else factor(2, f"a large job: {replicas} replicas")


def by_history(packet: dict[str, Any], endings: list[str]) -> dict[str, str]:
    """How the user's jobs ended so far: `endings` are their final states, as the LifeHook received them."""
    failed = endings.count("failed")
    if not endings:
        return factor(5, "no job of this user has ended yet")
    if failed * 2 > len(endings):
        return factor(1, f"{failed} of the user's {len(endings)} jobs failed")
    return factor(6, f"{len(endings) - failed} of the user's {len(endings)} jobs went well")
