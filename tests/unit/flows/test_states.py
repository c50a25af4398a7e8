from __future__ import annotations

from pipeline_core.flows.states import BY_HAND, RunState, TaskState, Trigger


def test_a_task_is_done_lost_or_neither() -> None:
    assert {state for state in TaskState if state.done} == {TaskState.SUCCEEDED, TaskState.SKIPPED}
    assert {state for state in TaskState if state.lost} == {
        *(TaskState.FAILED, TaskState.STOPPED, TaskState.UPSTREAM_FAILED)
    }


def test_final_states_of_runs_are_those_that_only_a_person_changes() -> None:
    assert {state for state in RunState if not state.final} == {RunState.WAITING, RunState.BLOCKED, RunState.RUNNING}


def test_runs_of_schedules_and_backfills_are_not_started_by_hand() -> None:
    assert {trigger for trigger in Trigger if not trigger.by_hand} == {Trigger.SCHEDULE, Trigger.BACKFILL}
    assert {*BY_HAND} == {trigger for trigger in Trigger if trigger.by_hand}
