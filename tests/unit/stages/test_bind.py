"""What the binder's answer makes of a TaskSet."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pipeline_core.stages import bind
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail
from tests.unit.stages.conftest import Plugins, plugin

Make = Callable[..., ClaimedStep]


class TestBind:
    def test_without_a_binder_the_taskset_stays(self, claim: Make) -> None:
        assert bind.run(claim(Stage.BIND, [])) == Advance()

    def test_several_binders_fail_the_job(self, claim: Make) -> None:
        result = bind.run(claim(Stage.BIND, [plugin(Stage.BIND, "a"), plugin(Stage.BIND, "b", 2)]))
        assert isinstance(result, Fail)
        assert "several match: a, b" in result.reason

    def test_a_binder_may_name_the_scheduler(self, plugins: Plugins, claim: Make) -> None:
        def bound(packet: dict[str, Any]) -> dict[str, Any]:
            document = copy.deepcopy(packet["job"])
            document["spec"]["roles"][0]["template"]["spec"]["schedulerName"] = "volcano"
            return document

        plugins.answers["a"] = bound
        result = bind.run(claim(Stage.BIND, [plugin(Stage.BIND, "a")]))
        assert isinstance(result, Advance)
        assert result.taskset is not None
        assert result.taskset["spec"]["roles"][0]["template"]["spec"]["schedulerName"] == "volcano"
