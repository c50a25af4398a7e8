"""What a job's worker does because there are shadows: nothing that the job waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from api.schemas.features import FeatureBody
from pipeline_core.common.redis import quick_redis
from pipeline_core.database import transaction
from pipeline_core.features import registry
from pipeline_core.plugins import shadow_queue
from pipeline_core.plugins.shadow_queue import Addressed
from pipeline_core.settings import Settings
from pipeline_core.stages.names import Stage
from tests.integration.jobs.test_cursor import ADMIN, job_of, submitted_taskset
from tests.statements import counted_statements
from workers import questions, stage_run

pytestmark = pytest.mark.usefixtures("service_settings")

GATES = [f"AccessGate.shadow-{number}.tests" for number in range(5)]
NAMES = [key.split(".")[1] for key in GATES]


@pytest.fixture
def switch() -> Iterator[Callable[[bool], None]]:
    """Turns five shadows on or off, which are off at first."""
    plugin = {"pluginType": "AccessGate", "callAddress": "http://127.0.0.1:9/gate", "mode": "shadow"}
    with transaction() as session:
        for name in NAMES:
            feature = {"name": name, "author": "tests", "enabled": False, "plugins": [plugin]}
            registry.register(session, FeatureBody().read(feature), ADMIN)

    def to(enabled: bool) -> None:
        with transaction() as session:
            for name in NAMES:
                registry.switch(session, name, enabled, ADMIN)

    yield to
    with transaction() as session:
        for name in NAMES:
            registry.delete(session, name, ADMIN)


def launched() -> tuple[str, list[str]]:
    """A job that has been launched, and the statements which that took."""
    job_id = submitted_taskset()
    with counted_statements() as executed:
        stage_run.run(job_id, 0, Stage.LAUNCH, "w1")
    assert job_of(job_id).state == "succeeded"
    return job_id, executed


def test_a_job_takes_the_same_statements_with_shadows_and_without(switch: Callable[[bool], None]) -> None:
    taken = []
    for enabled in (False, True):
        switch(enabled)
        # The first one reads the change of the registry.
        launched()
        taken.append(launched()[1])
    assert taken[0] == taken[1] != []


def test_the_questions_of_a_moment_are_sent_together_and_not_by_the_jobs_thread(
    switch: Callable[[bool], None], service_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(questions, "GATHER_SECONDS", 3600.0)
    switch(True)
    put, sent = shadow_queue.put, []

    def noted(client: object, prefix: str, each: list[Addressed]) -> None:
        sent.append(each)
        put(client, prefix, each)  # type: ignore[arg-type]

    monkeypatch.setattr(shadow_queue, "put", noted)
    jobs = [launched()[0] for _ in range(3)]
    assert sent == [], "the jobs are done, and nothing was sent"
    questions.publisher().close()
    assert len(sent) == 1
    client = quick_redis()
    assert client is not None
    for key in GATES:
        waiting = shadow_queue.take(client, service_settings.redis_prefix, {key: 9})
        assert waiting == [(key, (job_id, "gates", "")) for job_id in jobs]
