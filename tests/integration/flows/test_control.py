"""What people do to runs, and who may."""

from __future__ import annotations

import pytest

from pipeline_core.auth.actor import Actor
from pipeline_core.common.clock import now
from pipeline_core.database import transaction
from pipeline_core.database.models import AuditEntry, RunRow
from pipeline_core.errors import Conflict, Forbidden, NotFound, WrongParameter
from pipeline_core.flows.runs import control, creation, queries
from pipeline_core.flows.states import RunState, TaskState, Trigger
from pipeline_core.states import JobState
from tests.builders import flow_entry
from tests.flows import begin, store
from tests.integration.flows.conftest import Engine

ADMIN = Actor(name="admin", admin=True)
STRANGER = Actor(name="stranger", own_only=True)


def test_variables_take_the_place_of_values_for_all_tasks(engine: Engine) -> None:
    flow = store(
        flow_entry("vars", {"a": []}, {"a": {"script": "echo {{B}}"}}, global_env="A=1\nB={{A}}-{{uuid.uuid4()}}")
    )
    run_id = begin(flow, variables={"A": 2})
    engine.go()
    _, document = engine.job(*engine.jobs(run_id, "a"))
    container = document.submitted["spec"]["roles"][0]["template"]["spec"]["containers"][0]
    values = {variable["name"]: variable["value"] for variable in container["env"]}
    assert values["A"] == "2"
    assert values["B"].startswith("2-")
    assert container["command"][-1] == f"echo {values['B']}"


@pytest.mark.parametrize(
    ("variables", "said"),
    [({"C": "1"}, "has no C; there are A"), ({"A": True}, "must be a text or a number"), ({"A": {}}, "must be a text")],
)
def test_wrong_variables_start_nothing(engine: Engine, variables: dict[str, object], said: str) -> None:
    flow = store(flow_entry(f"wrong{abs(hash(said))}", {"a": []}, global_env="A=1"))
    with pytest.raises(WrongParameter, match=said):
        begin(flow, variables=variables)
    with transaction() as session:
        assert queries.listing(session, ADMIN, flow=flow.document_key, limit=10) == ([], 0)


def test_a_point_of_the_schedule_is_run_once_and_a_person_as_often_as_they_wish(engine: Engine) -> None:
    flow, moment = store(flow_entry("unique", {"a": []})), now()

    def start(trigger: Trigger) -> str | None:
        with transaction() as session:
            return creation.create(session, flow, trigger=trigger, execution_date=moment, runner="u1")

    assert start(Trigger.SCHEDULE)
    assert start(Trigger.SCHEDULE) is None
    assert start(Trigger.BACKFILL)
    assert len({start(Trigger.MANUAL) for _ in range(3)}) == 3


def test_a_run_keeps_the_flow_as_it_was_when_it_was_started(engine: Engine) -> None:
    flow = store(flow_entry("kept", {"a": [], "b": ["a"]}))
    run_id = begin(flow)
    with transaction() as session:
        changed = session.merge(flow)
        changed.entry = flow_entry("kept", {"other": []})
    engine.go()
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"a": "succeeded", "b": "succeeded"}


def test_a_single_task_runs_alone_even_when_it_is_skipped(engine: Engine) -> None:
    flow = store(flow_entry("single", {"a": [], "b": ["a"]}, {"b": {"skip": True}}))
    run_id = begin(flow, Trigger.TASK, only="B")
    engine.go()
    engine.turn(run_id, "b", JobState.SUCCEEDED)
    assert engine.states(run_id) == {"b": "succeeded"}
    assert engine.run(run_id).state == "succeeded"
    with pytest.raises(NotFound, match="has no task"):
        begin(flow, Trigger.TASK, only="c")


@pytest.mark.parametrize("trigger", [Trigger.TASK, Trigger.DEBUG])
def test_a_single_task_that_reads_the_output_of_another_is_refused_at_once(engine: Engine, trigger: Trigger) -> None:
    flow = store(flow_entry(f"reading-{trigger}", {"a": [], "b": ["a"]}, {"b": {"env": "IN={{a.output}}"}}))
    with pytest.raises(WrongParameter, match="The task b reads the output of a, which does not run with it"):
        begin(flow, trigger, only="b")
    assert begin(flow, trigger, only="a")


def test_a_debug_run_sleeps_and_is_cleared_with_its_job_stopped(engine: Engine) -> None:
    run_id = begin(store(flow_entry("debugged", {"a": []})), Trigger.DEBUG, only="a")
    engine.go()
    job_id = engine.jobs(run_id, "a")[0]
    _, document = engine.job(job_id)
    spec = document.submitted["spec"]
    assert spec["activeDeadlineSeconds"] == 3660
    assert spec["roles"][0]["template"]["spec"]["containers"][0]["command"] == ["sh", "-c", "sleep 3600"]
    control.clear(run_id, ADMIN)
    assert engine.job(job_id)[0].state == "stopped"
    engine.go()
    with pytest.raises(NotFound):
        control.clear(run_id, ADMIN)


def test_what_does_not_fit_is_refused_with_why(engine: Engine) -> None:
    run_id = begin(store(flow_entry("refused", {"a": []})))
    engine.go()
    with pytest.raises(Conflict, match="is running; only one that failed or was stopped can be retried"):
        control.retry(run_id, ADMIN)
    with pytest.raises(Conflict, match="is running; only one that has ended can be cleared"):
        control.clear(run_id, ADMIN)
    with pytest.raises(Conflict, match="was not scheduled"):
        control.dismiss(run_id, ADMIN)
    with pytest.raises(Conflict, match="The task a is waiting, in a run that is running"):
        control.mark(run_id, "a", TaskState.SUCCEEDED, ADMIN)
    with pytest.raises(NotFound, match="has no task"):
        control.mark(run_id, "b", TaskState.SUCCEEDED, ADMIN)
    with pytest.raises(WrongParameter, match="succeeded or skipped"):
        control.mark(run_id, "a", TaskState.FAILED, ADMIN)
    engine.turn(run_id, "a", JobState.SUCCEEDED)
    with pytest.raises(Conflict, match="has succeeded; only one that has not ended can be stopped"):
        control.stop(run_id, ADMIN)


def test_who_sees_only_their_own_does_not_let_another_s_run_submit_again(engine: Engine) -> None:
    run_id = begin(store(flow_entry("shared", {"a": [], "b": ["a"]})))
    runner, maker = Actor(name="u1", own_only=True), Actor(name="maker", own_only=True)
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED)
    for act in (lambda: control.retry(run_id, maker), lambda: control.mark(run_id, "a", TaskState.SKIPPED, maker)):
        with pytest.raises(Forbidden, match='may submit for "maker" only'):
            act()
    control.retry(run_id, runner)
    control.stop(run_id, maker)


def test_others_runs_do_not_exist_for_who_sees_only_their_own(engine: Engine) -> None:
    run_id = begin(store(flow_entry("private", {"a": []})))
    for own in (Actor(name="u1", own_only=True), Actor(name="maker", own_only=True)):
        with transaction() as session:
            assert queries.detail(session, run_id, own)["id"] == run_id
            assert [run["id"] for run in queries.listing(session, own, flow="private", limit=5)[0]] == [run_id]
    with transaction() as session:
        assert queries.listing(session, STRANGER, limit=5) == ([], 0)
        with pytest.raises(NotFound):
            queries.detail(session, run_id, STRANGER)
    for act in (control.stop, control.retry, control.dismiss, control.clear):
        with pytest.raises(NotFound):
            act(run_id, STRANGER)
    with pytest.raises(NotFound):
        control.mark(run_id, "a", TaskState.SKIPPED, STRANGER)


def test_what_people_do_is_written_into_the_audit_log(engine: Engine) -> None:
    run_id = begin(store(flow_entry("audited", {"a": [], "b": ["a"]})), reason="why not")
    engine.go()
    control.mark(run_id, "b", TaskState.SKIPPED, ADMIN, reason="broken")
    control.stop(run_id, ADMIN, reason="enough")
    control.retry(run_id, ADMIN)
    with transaction() as session:
        found = [
            (row.actor, row.action, row.reason)
            for row in session.query(AuditEntry).filter(AuditEntry.target == run_id).order_by(AuditEntry.id)
        ]
    assert found == [
        ("u1", "run.start", "why not"),
        ("admin", "task.mark", "broken"),
        ("admin", "run.stop", "enough"),
        ("admin", "run.retry", ""),
    ]


def test_the_detail_has_each_task_with_its_latest_job(engine: Engine) -> None:
    run_id = begin(store(flow_entry("detailed", {"a": [], "B_2": ["a"]}, {"a": {"retry": 1, "label": "首先"}})))
    engine.go()
    engine.turn(run_id, "a", JobState.FAILED, reason="oops")
    with transaction() as session:
        detail = queries.detail(session, run_id, ADMIN)
    first, second = detail.pop("tasks")
    assert detail.keys() == {
        "id",
        "flow",
        "trigger",
        "executionDate",
        "state",
        "reason",
        "blockedBy",
        "variables",
        "runner",
        "createdAt",
        "startAt",
        "finishedAt",
    }
    assert (detail["flow"], detail["state"], detail["blockedBy"], detail["finishedAt"]) == (
        "detailed",
        "running",
        None,
        None,
    )
    jobs = engine.jobs(run_id, "a")
    assert [(one["attempt"], one["jobID"], one["state"], one["reason"]) for one in first.pop("attempts")] == [
        (1, jobs[0], "failed", "oops"),
        (2, jobs[1], "waiting", ""),
    ]
    assert (first.pop("upstream"), second["upstream"]) == ([], ["a"])
    assert first == {
        "name": "a",
        "label": "首先",
        "state": "waiting",
        "reason": "oops",
        "jobID": jobs[1],
        "attempt": 2,
        "startAt": None,
        "finishedAt": None,
        "output": None,
        "usage": None,
    }
    assert (second["name"], second["jobID"], second["attempt"]) == ("B_2", None, 0)


def test_lists_are_filtered_and_cut_the_newest_first(engine: Engine) -> None:
    flow = store(flow_entry("Listed_here", {"a": []}))
    ids = [begin(flow) for _ in range(3)]
    with transaction() as session:
        session.get_one(RunRow, ids[0]).state = RunState.FAILED
    begin(flow, Trigger.TASK, only="a")
    with transaction() as session:
        found, count = queries.listing(session, ADMIN, flow="listed-HERE", triggers=[Trigger.MANUAL], limit=2, offset=1)
        assert ([run["id"] for run in found], count) == ([ids[1], ids[0]], 3)
        found, count = queries.listing(session, ADMIN, flow="listed-here", states=[RunState.FAILED], limit=2)
        assert ([run["id"] for run in found], count) == ([ids[0]], 1)
