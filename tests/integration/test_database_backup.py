"""`pipeline backup` of a service that runs, and `pipeline restore` into an empty database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest

from tests.builders import flow_entry, taskset
from tests.installation import Installation, installed
from tests.servers import fresh_database
from tests.waiting import wait_for

PROGRAM = "from pipeline_cli import main; main(prog_name='pipeline')"


def pipeline(database_url: str, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command on this database."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        env={**os.environ, "PIPELINE_DATABASE_URL": database_url, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@contextmanager
def serving(directory: Path, database_url: str, redis_url: str) -> Iterator[Installation]:
    """An installation on this database that answers."""
    with installed(directory, database_url, redis_url, split=False) as service:
        service.start()
        wait_for(lambda: service.ask("GET", "/readyz").status_code == 200, "the service to be ready")
        yield service


def finished(service: Installation, run_id: str) -> str | None:
    """The state of a run that has ended."""
    state = str(service.get(f"/v1/runs/{run_id}")["state"])
    return state if state in ("succeeded", "failed") else None


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Directories of the service that is backed up, and of the one that is restored."""
    before, after = tmp_path / "before", tmp_path / "after"
    before.mkdir()
    after.mkdir()
    return before, after


def test_jobs_flows_and_tokens_work_after_a_restore(
    folders: tuple[Path, Path], tmp_path: Path, postgres_url: str, database_url: str, redis_url: str
) -> None:
    file = tmp_path / "pipeline.backup"
    with serving(folders[0], database_url, redis_url) as service:
        job_id = service.submit(taskset())
        service.wait_state(job_id, "succeeded")
        token = service.post("/v1/tokens", {"privileges": ["read_job"], "forwho": "ada"})["token"]
        service.post("/v1/flows", flow_entry("daily", {"a": [], "b": ["a"]}))
        run_id = service.post("/v1/flows/daily/run", {})["runID"]
        assert wait_for(lambda: finished(service, run_id), "the run to end") == "succeeded"
        made = pipeline(database_url, "backup", file)
        assert made.returncode == 0, made.stderr
        events = service.events(job_id)
    assert file.stat().st_mode & 0o777 == 0o600
    again = pipeline(database_url, "backup", file)
    assert (again.returncode, "exists already" in again.stderr) == (3, True)

    with fresh_database(postgres_url) as restored:
        done = pipeline(restored, "restore", file)
        assert (done.returncode, done.stderr) == (0, "")
        with serving(folders[1], restored, redis_url) as service:
            assert service.job(job_id)["state"] == "succeeded"
            assert service.events(job_id) == events
            assert service.ask("GET", "/v1/job/list", token=token).status_code == 200
            assert finished(service, run_id) == "succeeded"
            service.wait_state(service.submit(taskset(), name="later"), "succeeded")
            later = service.post("/v1/flows/daily/run", {})["runID"]
            assert wait_for(lambda: finished(service, later), "the run to end") == "succeeded"
            used = pipeline(restored, "restore", file, "--replace")
            assert (used.returncode, "stop all of them first" in used.stderr) == (3, True)
        full = pipeline(restored, "restore", file)
        assert (full.returncode, "--replace" in full.stderr) == (3, True)
        replaced = pipeline(restored, "restore", file, "--replace")
        assert (replaced.returncode, replaced.stderr) == (0, "")
        with closing(psycopg2.connect(restored)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FILTER (WHERE name = 'later') FROM jobs")
            assert cursor.fetchone() == (0,)


def test_what_is_no_backup_is_refused_and_changes_nothing(tmp_path: Path, empty_database_url: str) -> None:
    file = tmp_path / "text"
    file.write_text("no backup")
    done = pipeline(empty_database_url, "restore", file)
    assert done.returncode == 3
    assert "archive" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_database_that_is_away_is_said_to_be(tmp_path: Path) -> None:
    done = pipeline("postgresql://me:hunter2@127.0.0.1:1/none", "backup", tmp_path / "file")
    assert done.returncode == 5
    assert "Traceback" not in done.stderr
    assert "hunter2" not in done.stderr
    assert not (tmp_path / "file").exists()
