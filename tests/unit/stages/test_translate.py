"""What the translator's answer makes of a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pipeline_core.plugins.errors import JobRejected
from pipeline_core.plugins.types import FailurePolicy
from pipeline_core.stages import translate
from pipeline_core.stages.names import Stage
from pipeline_core.stages.outcomes import Advance, ClaimedStep, Fail, TrailOutcome
from tests.builders import taskset
from tests.unit.stages.conftest import HEADER, Plugins, plugin

Make = Callable[..., ClaimedStep]


class TestTranslate:
    def translated(self, claim: Make, *registered: Any) -> Any:
        header = {**HEADER, "jobKind": "Echo"}
        return translate.run(claim(Stage.TRANSLATE, registered, {"kind": "Echo"}, kind="Echo", header=header))

    def test_a_taskset_needs_no_translator(self, plugins: Plugins, claim: Make) -> None:
        assert translate.run(claim(Stage.TRANSLATE, [plugin(Stage.TRANSLATE, "t")])) == Advance()
        assert plugins.asked == []

    def test_none_and_several_fail_the_job_and_are_named(self, plugins: Plugins, claim: Make) -> None:
        none = self.translated(claim)
        several = self.translated(claim, plugin(Stage.TRANSLATE, "t1"), plugin(Stage.TRANSLATE, "t2", 2))
        assert isinstance(none, Fail)
        assert isinstance(several, Fail)
        assert "none matches" in none.reason
        assert "several match: t1, t2" in several.reason

    def test_the_answer_gets_the_jobs_name(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers["t"] = taskset("echo hello")
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t"))
        assert isinstance(result, Advance)
        assert result.taskset is not None
        assert result.taskset["metadata"] == {"name": "j0", "namespace": "default"}

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            ({"kind": "Pod"}, "kind"),
            (taskset(replicas=0), "spec.roles[0].replicas"),
            ({**taskset(), "metadata": {"namespace": "elsewhere"}}, 'metadata.namespace: "elsewhere" is not one of'),
        ],
    )
    def test_what_is_no_taskset_is_a_bad_answer_that_says_where(
        self, plugins: Plugins, claim: Make, answer: Any, words: str
    ) -> None:
        plugins.answers["t"] = answer
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t"))
        assert isinstance(result, Fail)
        assert result.reason.startswith("t answered badly: ")
        assert words in result.reason

    @pytest.mark.parametrize("policy", FailurePolicy)
    def test_a_rejected_job_fails_with_the_translator_s_words_whatever_its_policy(
        self, plugins: Plugins, claim: Make, policy: FailurePolicy
    ) -> None:
        plugins.answers["t"] = JobRejected("no `worker` (status 422)", attempts=1)
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t", failure_policy=policy))
        assert isinstance(result, Fail)
        assert result.reason == "t rejected the job: no `worker` (status 422)"
        assert [entry.outcome for entry in result.trail] == [TrailOutcome.REJECTED]

    def test_a_translator_cannot_be_ignored(self, plugins: Plugins, claim: Make) -> None:
        plugins.answers["t"] = {"kind": "Pod"}
        result = self.translated(claim, plugin(Stage.TRANSLATE, "t", failure_policy=FailurePolicy.IGNORE))
        assert isinstance(result, Fail)
