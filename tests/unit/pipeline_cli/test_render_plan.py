from __future__ import annotations

from typing import Any

from rich.console import Console

from pipeline_cli.render_plan import condition, plan

GATE: dict[str, Any] = {
    "key": "AccessGate.quota.platform",
    "feature": "quota",
    "enabled": True,
    "sequence": 1,
    "runs": False,
    "reason": "The selector does not match.",
    "selector": {
        "expression": "debug",
        "matched": False,
        "conditions": [{"name": "debug", "key": "type", "expect": "/^deb/", "found": "bat\x1bch", "matched": False}],
    },
}
HOOK = {
    **GATE,
    "key": "LifeHook.notices.platform",
    "runs": True,
    "reason": "",
    "states": ["failed", "stopped"],
    "selector": {"expression": "", "matched": True, "conditions": []},
}
PLAN = {
    "namespace": "default",
    "tasksetCheck": "passed",
    "stages": [
        {"stage": "gates", "reached": True, "fails": False, "outcome": "Nobody is asked.", "plugins": [GATE]},
        {"stage": "launch", "reached": True, "fails": False, "outcome": "It goes to the cluster.", "plugins": []},
    ],
    "lifeHooks": [HOOK],
}


def lines(payload: Any) -> list[list[str]]:
    console = Console(width=250, force_terminal=False, markup=False)
    with console.capture() as capture:
        for part in plan(payload):
            console.print(part)
    return [line.split() for line in capture.get().splitlines() if line.strip()]


def test_a_plan_shows_what_each_stage_does_and_which_plugin_runs_or_why_not() -> None:
    shown = lines(PLAN)
    assert shown[0] == ["namespace", "default"]
    assert ["launch", "It", "goes", "to", "the", "cluster."] in shown
    gate, hook = shown[-2:]
    assert gate[:4] == ["gates", "1", "AccessGate.quota.platform", "no"]
    assert " ".join(gate[4:]).startswith("The selector does not match. debug debug: no")
    assert hook == ["hooks", "1", "LifeHook.notices.platform", "failed,", "stopped", "*"]


def test_without_plugins_there_are_the_stages_alone() -> None:
    shown = lines({**PLAN, "stages": [{**stage, "plugins": []} for stage in PLAN["stages"]], "lifeHooks": []})
    assert "PLUGIN" not in {word for line in shown for word in line}


def test_a_condition_shows_what_was_found_without_control_characters() -> None:
    (value,) = GATE["selector"]["conditions"]
    assert condition(value) == 'debug: no, type is "bat ch", expected /^deb/'
    assert condition({**value, "name": "userID", "key": "userID", "expect": None, "found": "", "matched": False}) == (
        'userID: no, userID is "", expected some text'
    )
