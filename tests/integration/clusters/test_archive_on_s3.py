"""The archive of logs on a real S3 server: pieces, large logs, a server that restarts, and settings that are wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from s3fs import S3FileSystem

from pipeline_core.clusters.kubernetes import archive as archives
from pipeline_core.clusters.kubernetes.archive import Archive, ArchiveUnavailable, RunLog
from tests.s3_server import BUCKET, KEY, SECRET, S3Server, s3_server

MAIN = RunLog("pod", 1, "main", 0)
URL = f"s3://{BUCKET}/archive"
PART = 5 * 1024**2
"""The least bytes that a part of a multi-part upload may have."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def server(running: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    S3FileSystem.clear_instance_cache()
    yield running
    S3FileSystem.clear_instance_cache()


def lines(first: int, count: int, size: int = 0) -> list[bytes]:
    return [f"2026-03-01T12:00:00.{number:09}Z {'x' * size}".encode() for number in range(first, first + count)]


def stored(job_id: str) -> list[bytes]:
    return list(Archive(URL).lines(job_id, MAIN))


def test_a_log_is_read_from_its_pieces_until_it_is_whole(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_SMALL", 3)
    archive, log = Archive(URL), lines(0, 50)
    for first in range(0, 50, 10):
        archive.add("j1", MAIN, first, log[first : first + 10])
        assert stored("j1") == log[: first + 10]
    assert len(Archive(URL).runs("j1")[MAIN]) < 5, "pieces were joined"
    archive.store("j1", MAIN, log)
    assert stored("j1") == log
    assert [path.endswith(".log") for path in server.files().find(f"{BUCKET}/archive/j1")] == [True]
    assert Archive(URL).has("j1", MAIN)
    archive.remove("j1")
    assert not Archive(URL).has("j1", MAIN)
    assert Archive(URL).runs("j1") == {}
    assert Archive(URL).size("j1") == 0


def test_a_large_log_is_uploaded_in_parts(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3FileSystem, "default_block_size", PART)
    log = lines(0, 12, size=1024**2)
    Archive(URL).store("j2", MAIN, log)
    assert stored("j2") == log


def test_of_an_upload_that_breaks_off_nothing_is_left(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3FileSystem, "default_block_size", PART)

    def broken() -> Iterator[bytes]:
        yield from lines(0, 12, size=1024**2)
        raise ArchiveUnavailable("the log cannot be read")

    with pytest.raises(ArchiveUnavailable, match="cannot be read"):
        Archive(URL).store("j3", MAIN, broken())
    assert server.files().find(f"{BUCKET}/archive/j3") == []
    assert server.files().list_multipart_uploads(BUCKET) == []


def test_while_the_server_restarts_nothing_is_lost_and_nothing_is_twice(server: S3Server) -> None:
    archive, log = Archive(URL), lines(0, 30)
    archive.add("j4", MAIN, 0, log[:10])
    server.kill()
    for use in (
        lambda: archive.add("j4", MAIN, 10, log[10:20]),
        lambda: archive.has("j4", MAIN),
        lambda: list(archive.lines("j4", MAIN)),
    ):
        with pytest.raises(ArchiveUnavailable, match="cannot be used at present"):
            use()
    server.start()
    assert list(archive.lines("j4", MAIN)) == log[:10]
    archive.add("j4", MAIN, 10, log[10:20])
    archive.add("j4", MAIN, 10, log[10:20])
    assert stored("j4") == log[:20]
    archive.store("j4", MAIN, log)
    server.kill()
    server.start()
    assert stored("j4") == log
    assert len(server.files().find(f"{BUCKET}/archive/j4")) == 1


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("AWS_ACCESS_KEY_ID", "nobody", "access key ID you provided does not exist"),
        ("AWS_SECRET_ACCESS_KEY", "wrong", "signature we calculated does not match"),
    ],
)
def test_wrong_credentials_are_said(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, words: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ArchiveUnavailable, match=words):
        Archive(URL).store("j5", MAIN, lines(0, 1))
    with pytest.raises(ArchiveUnavailable, match=words):
        list(Archive(URL).lines("j5", MAIN))


def test_a_missing_bucket_is_said_and_not_made(server: S3Server) -> None:
    archive = Archive("s3://nowhere/archive")
    for use in (
        lambda: archive.store("j6", MAIN, lines(0, 1)),
        lambda: archive.add("j6", MAIN, 0, lines(0, 1)),
        lambda: list(archive.lines("j6", MAIN)),
    ):
        with pytest.raises(ArchiveUnavailable, match="bucket does not exist"):
            use()
    assert "nowhere" not in server.files().ls("")
