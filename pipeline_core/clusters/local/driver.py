"""The driver of the local cluster."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from pipeline_core.clusters import logs
from pipeline_core.clusters.base import (
    ClusterError,
    ClusterUnavailable,
    ForeignObject,
    LaunchRequest,
    LogLine,
    LogQuery,
    Observation,
    ReplicaKey,
    ReplicaResult,
    StillEnding,
    expected_replicas,
)
from pipeline_core.clusters.local.attempt import NOT_COLLECTED, LocalAttempt
from pipeline_core.clusters.local.files import BOUND, UNKNOWN
from pipeline_core.clusters.local.journal import Key
from pipeline_core.clusters.local.launcher import cgroup_place, mount_problem
from pipeline_core.clusters.local.linux import DirectoryWatch, Overflow
from pipeline_core.clusters.local.plan import has_mounts, is_job_id, make_plan
from pipeline_core.clusters.local.slots import write_limit
from pipeline_core.common.files import sync_directory
from pipeline_core.settings import Settings
from pipeline_core.states import ReplicaState
from pipeline_core.taskset.document import collects

IDLE_SECONDS = 1.0
"""After this time without a change the watch yields an empty collection, so that its caller can record a heartbeat."""
STOP_POLL_SECONDS = 0.25


class LocalCluster:
    """Runs replicas as processes of this machine; `root` is the directory of everything that belongs to the cluster.

    `slots` is how many replicas run at a time over all jobs, 0 without a limit; `grace_seconds` how long a replica may
    take to end after SIGTERM unless its pod says otherwise; `log_limit` how many bytes the log of a container may have, 0
    without a limit. All state is in files: any number of processes may use the
    same root.
    """

    platform = "local"

    def __init__(self, name: str, root: Path, *, slots: int, grace_seconds: float, log_limit: int = 0) -> None:
        self.name = name
        self._root = root.absolute()
        self._jobs = self._root / "jobs"
        self._live = self._root / "live"
        self._slots = slots
        self._grace_seconds = grace_seconds
        self._log_limit = log_limit

    def check(self) -> None:
        """Nothing to check: `pipeline up` says what this machine does not allow."""

    def launch(self, request: LaunchRequest) -> Observation:
        with _os_errors():
            attempts = self._attempts(request.job_id)
            if attempts:
                _check_owner(attempts[-1], request)
                if attempts[-1].number > request.attempt:
                    return attempts[-1].observe()
            ended = [earlier.stop(None) for earlier in attempts if earlier.number < request.attempt]
            if not all(ended):
                raise StillEnding(f"attempt {request.attempt - 1} of job {request.job_id} is still ending")
            keys = [_key(replica) for replica in expected_replicas(request)]
            attempt = _by_number(attempts, request.attempt) or self._create(request, keys, attempts)
            attempt.order(keys)
            (self._live / request.job_id).touch()
            attempt.ensure_supervisor()
            return attempt.observe()

    def observe(self, job_id: str, *, usage: bool = False) -> Observation | None:
        """Also starts a supervisor for waiting replicas whose supervisor has died; replicas that it was running have failed."""
        with _os_errors():
            attempts = self._attempts(job_id)
            if not attempts:
                return None
            attempts[-1].revive()
            return attempts[-1].with_usage() if usage else attempts[-1].observe()

    def watch(self, stop: Event) -> Iterator[Collection[str]]:
        """All jobs that were not deleted yet, then each one of which a replica changes."""
        with _os_errors():
            self._make_directories()
            watching = DirectoryWatch(self._live)
        with watching as changes:
            yield self._live_jobs()
            quiet = 0.0
            while not stop.is_set():
                try:
                    names = changes.names(STOP_POLL_SECONDS)
                except Overflow:
                    names = self._live_jobs()
                quiet = 0.0 if names else quiet + STOP_POLL_SECONDS
                if names or quiet >= IDLE_SECONDS:
                    quiet = 0.0
                    yield names

    def watch_lag(self) -> float:
        """0.0: the watch keeps no changes back."""
        return 0.0

    def cached_observation(self, job_id: str) -> Observation | None:
        """None: to observe a job is as cheap as to keep what the watch has seen."""
        return None

    def logs(self, job_id: str, query: LogQuery) -> Iterator[LogLine | None]:
        attempts: dict[int, LocalAttempt] = {}

        def chosen() -> dict[LocalAttempt, list[Key]]:
            for attempt in self._attempts(job_id):
                attempts.setdefault(attempt.number, attempt)
            ordered = [
                (number, ReplicaKey(*key)) for number, attempt in attempts.items() for key in attempt.replica_attempts()
            ]
            found: dict[LocalAttempt, list[Key]] = {}
            for number, replica in sorted(logs.chosen(query, ordered)):
                found.setdefault(attempts[number], []).append(_key(replica))
            return found

        def find() -> Iterator[logs.LogFile]:
            for attempt, keys in chosen().items():
                for key in keys:
                    yield from attempt.log_files(key)

        def over() -> bool:
            return all(attempt.have_ended(keys) for attempt, keys in chosen().items())

        with _os_errors():
            yield from logs.read(query, find, over)

    def results(self, job_id: str) -> Iterator[ReplicaResult]:
        """Read from files, which stay until the job is pruned."""
        with _os_errors():
            for attempt in self._attempts(job_id)[-1:]:
                yield from attempt.results()

    def delete(self, job_id: str, replicas: Collection[ReplicaKey] | None = None) -> bool:
        with _os_errors():
            attempts = self._attempts(job_id)
            if not attempts:
                return True
            if replicas is not None:
                return attempts[-1].stop([_key(replica) for replica in sorted(replicas)])
            gone = [attempt.stop(None) for attempt in attempts]
            if all(gone):
                (self._live / job_id).unlink(missing_ok=True)
            return all(gone)

    def end(self, job_id: str) -> bool:
        """As `delete`, which keeps the files of ended replicas anyway."""
        return self.delete(job_id)

    def running(self) -> dict[str, int]:
        """The number of running replicas by job, for jobs that have any."""
        counts = {}
        with _os_errors():
            for job_id in self._live_jobs():
                replicas = [replica for attempt in self._attempts(job_id) for replica in attempt.observe().replicas]
                counts[job_id] = sum(replica.state is ReplicaState.RUNNING for replica in replicas)
        return {job_id: count for job_id, count in counts.items() if count}

    def prune(self, job_ids: Collection[str]) -> None:
        """After this, a launch of the same job runs it again."""
        with _os_errors():
            for job_id in job_ids:
                if is_job_id(job_id) and not (self._live / job_id).exists() and (self._jobs / job_id).exists():
                    shutil.rmtree(self._jobs / job_id)

    def log_sizes(self, job_ids: Collection[str]) -> Mapping[str, int]:
        with _os_errors():
            return {job_id: sum(attempt.log_bytes() for attempt in self._attempts(job_id)) for job_id in job_ids}

    def prune_logs(self, job_ids: Collection[str]) -> None:
        with _os_errors():
            for job_id in job_ids:
                if not (self._live / job_id).exists():
                    for attempt in self._attempts(job_id):
                        attempt.remove_logs()

    def _attempts(self, job_id: str) -> list[LocalAttempt]:
        if not is_job_id(job_id):
            return []
        try:
            numbers = sorted(int(name) for name in os.listdir(self._jobs / job_id) if name.isdigit())
        except FileNotFoundError:
            return []
        return [LocalAttempt(self._jobs / job_id / str(number), number) for number in numbers]

    def _create(self, request: LaunchRequest, keys: Sequence[Key], earlier: Sequence[LocalAttempt]) -> LocalAttempt:
        """Make the directory of a job attempt. It gets its name once all of it is on disk."""
        instance = earlier[-1].plan["instance"] if earlier else str(uuid.uuid4())
        place, cgroup_problem = cgroup_place()
        plan = make_plan(
            request,
            self._root,
            slots=self._slots,
            grace_seconds=self._grace_seconds,
            instance=instance,
            log_limit=self._log_limit,
            cgroups=place,
            cgroup_problem=cgroup_problem,
        )
        problem = mount_problem()
        if problem and has_mounts(plan):
            raise ClusterError(f"the local cluster cannot mount volumes on this machine: {problem}")
        if problem:
            plan["notes"].append(f"{NOT_COLLECTED}: {problem}")
        plan["results"] = (UNKNOWN if collects(request.taskset) else "") if problem else BOUND
        self._make_directories()
        job = self._jobs / request.job_id
        job.mkdir(exist_ok=True)
        path = job / str(request.attempt)
        hidden = job / f".{request.attempt}.{uuid.uuid4().hex}"
        attempt = LocalAttempt(path, request.attempt)
        try:
            LocalAttempt.write(hidden, plan, keys)
        except OSError:
            shutil.rmtree(hidden, ignore_errors=True)
            raise
        try:
            hidden.rename(path)
        except OSError:
            # Another process launched the same job attempt meanwhile: theirs counts.
            shutil.rmtree(hidden)
            _check_owner(attempt, request)
        sync_directory(str(job))
        sync_directory(str(self._jobs))
        return attempt

    def _make_directories(self) -> None:
        if not self._live.is_dir():
            self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._jobs.mkdir(exist_ok=True)
            self._live.mkdir(exist_ok=True)
        write_limit(str(self._root), self._slots)

    def _live_jobs(self) -> list[str]:
        return sorted(os.listdir(self._live)) if self._live.is_dir() else []


def from_settings(settings: Settings) -> LocalCluster:
    """The cluster in PIPELINE_DATA_DIR."""
    return LocalCluster(
        settings.cluster_name,
        settings.data_dir / "cluster",
        slots=settings.local_slots,
        grace_seconds=settings.stop_grace_seconds,
        log_limit=settings.log_limit_bytes,
    )


def _by_number(attempts: Sequence[LocalAttempt], number: int) -> LocalAttempt | None:
    return next((attempt for attempt in attempts if attempt.number == number), None)


@contextmanager
def _os_errors() -> Iterator[None]:
    """Turns OSError into ClusterUnavailable: on a full or missing disk, trying again later may help."""
    try:
        yield
    except OSError as error:
        raise ClusterUnavailable(f"the local cluster's files cannot be used at present: {error}") from error


def _key(replica: ReplicaKey) -> Key:
    return Key((replica.role, replica.index, replica.attempt))


def _check_owner(attempt: LocalAttempt, request: LaunchRequest) -> None:
    if (attempt.plan["namespace"], attempt.plan["user"]) != (request.namespace, request.user_id):
        raise ForeignObject(f"the local cluster has a job {request.job_id} of another namespace or user")
