"""The logs of a run's tasks, merged and followed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from queue import Queue

import pytest

from pipeline_core.clusters.base import ClusterUnavailable, LogLine, LogQuery
from pipeline_core.flows.runs import logs
from tests.waiting import HANG_SECONDS

START = datetime(2026, 3, 1, tzinfo=UTC)
JOBS = {"j1": "load", "j2": "train"}


def line(second: int, text: str, source: str = "main-0") -> LogLine:
    return LogLine(START + timedelta(seconds=second), source, text)


class Cluster:
    """Has written lines, and gives those that are followed as they are put into queues; None ends them."""

    def __init__(self, written: dict[str, list[LogLine]]) -> None:
        self.written = written
        self.coming: dict[str, Queue[LogLine | None]] = {job_id: Queue() for job_id in written}
        self.asked: list[tuple[str, LogQuery]] = []

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        self.asked.append((job_id, query))
        yield from self.written[job_id][-query.tail if query.tail is not None else 0 :]
        if query.follow:
            yield None
            while coming := self.coming[job_id].get(timeout=HANG_SECONDS):
                yield coming


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(
        {"j1": [line(1, "one"), line(4, "four")], "j2": [line(2, "two", "master-0"), line(3, "three", "worker-1")]}
    )
    monkeypatch.setattr(logs, "cluster", lambda: made)
    monkeypatch.setattr(
        logs, "_jobs", lambda run_id, task, attempt: (JOBS if task is None else {"j1": "load"}, set(), True)
    )
    monkeypatch.setattr(logs, "finished", lambda job_id, query: lambda: True)
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.02)
    return made


@pytest.mark.usefixtures("cluster")
def test_lines_of_all_tasks_are_merged_by_time_and_prefixed() -> None:
    assert [*logs.lines("r1", None, LogQuery())] == [
        *("load | one\n", "train/master-0 | two\n", "train/worker-1 | three\n", "load | four\n")
    ]


@pytest.mark.usefixtures("cluster")
def test_a_single_task_s_lines_have_no_prefix() -> None:
    assert [*logs.lines("r1", "load", LogQuery())] == ["one\n", "four\n"]


@pytest.mark.parametrize(("tail", "texts"), [(0, []), (1, ["four"]), (3, ["two", "three", "four"])])
def test_the_last_lines_are_those_of_all_tasks_together(cluster: Cluster, tail: int, texts: list[str]) -> None:
    cluster.written = {job_id: lines[-tail:] if tail else [] for job_id, lines in cluster.written.items()}
    found = logs.lines("r1", None, LogQuery(tail=tail))
    assert [text.rpartition("| ")[2].strip() for text in found] == texts


def test_a_follower_gets_lines_of_tasks_that_start_later_until_the_run_has_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, over = {"j1": "load"}, threading.Event()
    monkeypatch.setattr(logs, "_jobs", lambda run_id, task, attempt: (dict(known), set(), over.is_set()))
    lines = filter(None, logs.lines("r1", None, LogQuery(follow=True, tail=1)))
    assert next(lines) == "load | four\n"
    cluster.coming["j1"].put(line(5, "five"))
    assert next(lines) == "load | five\n"
    known["j2"] = "train"
    assert [next(lines), next(lines)] == ["train/master-0 | two\n", "train/worker-1 | three\n"]
    over.set()
    for coming in cluster.coming.values():
        coming.put(None)
    assert [*lines] == []
    assert [(job_id, query.tail) for job_id, query in cluster.asked] == [("j1", 1), ("j2", None)]


def test_jobs_that_have_ended_when_they_are_followed_come_by_time(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_jobs", lambda run_id, task, attempt: (JOBS, set(JOBS), True))
    for coming in cluster.coming.values():
        coming.put(None)
    texts = [text.rpartition("| ")[2].strip() for text in logs.lines("r1", None, LogQuery(follow=True)) if text]
    assert texts == ["one", "two", "three", "four"]


def test_all_lines_of_a_job_that_has_ended_come_before_those_of_one_that_begins_then(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, ended, over = {"j1": "load"}, set(), threading.Event()
    monkeypatch.setattr(logs, "_jobs", lambda run_id, task, attempt: (dict(known), set(ended), over.is_set()))
    lines = logs.lines("r1", None, LogQuery(follow=True))
    merged = filter(None, lines)
    assert [next(merged), next(merged)] == ["load | one\n", "load | four\n"]
    known["j2"] = "train"
    ended |= {"j1", "j2"}
    over.set()
    cluster.coming["j2"].put(None)
    while next(lines):
        pass
    assert [job_id for job_id, _ in cluster.asked] == ["j1"]
    cluster.coming["j1"].put(line(5, "five"))
    cluster.coming["j1"].put(None)
    assert [*merged] == ["load | five\n", "train/master-0 | two\n", "train/worker-1 | three\n"]


def test_no_more_than_so_many_jobs_are_followed_at_a_time(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FOLLOWED_JOBS", 1)
    lines = filter(None, logs.lines("r1", None, LogQuery(follow=True)))
    assert [next(lines), next(lines)] == ["load | one\n", "load | four\n"]
    assert [job_id for job_id, _ in cluster.asked] == ["j1"]
    cluster.coming["j1"].put(None)
    cluster.coming["j2"].put(None)
    assert [*lines] == ["train/master-0 | two\n", "train/worker-1 | three\n"]


@pytest.mark.parametrize("follow", [True, False])
def test_what_a_cluster_that_is_away_says_is_raised(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, follow: bool
) -> None:
    def away(job_id: str, query: LogQuery) -> Iterator[LogLine]:
        raise ClusterUnavailable("The cluster is away.")
        yield

    monkeypatch.setattr(cluster, "logs", away)
    with pytest.raises(ClusterUnavailable):
        next(logs.lines("r1", None, LogQuery(follow=follow)))


def test_a_listener_ends_when_nobody_reads_any_more(cluster: Cluster) -> None:
    before = set(threading.enumerate())
    lines = logs.lines("r1", "load", LogQuery(follow=True))
    next(lines)
    (listener,) = set(threading.enumerate()) - before
    lines.close()  # type: ignore[attr-defined]
    cluster.coming["j1"].put(line(9, "nobody reads this"))
    listener.join(HANG_SECONDS)
    assert not listener.is_alive()
