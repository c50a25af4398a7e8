from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from pipeline_core.auth import password
from pipeline_core.auth.password import VerificationCache, error_of, hashed, looks_like_token
from tests.waiting import HANG_SECONDS


@pytest.mark.parametrize("text", ["12345678", "x" * 128, "a" * 23, "a" * 25, "a" * 23 + "-", "with blanks inside"])
def test_a_password_may_be(text: str) -> None:
    assert error_of(text) is None


@pytest.mark.parametrize(
    "text", ["1234567", "x" * 129, "A1" * 12, " 12345678", "12345678 ", "1234\n5678", "pässwörter", "\x00" * 8]
)
def test_a_password_may_not_be(text: str) -> None:
    assert error_of(text)


@pytest.mark.parametrize("text", ["a" * 24, "A1" * 12])
def test_a_token_is_24_letters_and_digits(text: str) -> None:
    assert looks_like_token(text)


@pytest.mark.parametrize("text", ["a" * 23, "a" * 25, "a" * 23 + "-", "ä" * 24, "a" * 24 + "\n", "٣" * 24])
def test_anything_else_is_none(text: str) -> None:
    assert not looks_like_token(text)


def test_a_verification_is_cached_for_its_time_and_its_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def verify(hash: str, text: str) -> bool:
        asked.append(text)
        return text == "right"

    now = [100.0]
    monkeypatch.setattr(password, "_verify", verify)
    monkeypatch.setattr(password.time, "monotonic", lambda: now[0])
    verdicts = VerificationCache(seconds=60)
    assert verdicts.get("hash 1", "right")
    assert not verdicts.get("hash 1", "wrong")
    assert verdicts.get("hash 1", "right")
    assert not verdicts.get("hash 1", "wrong")
    assert asked == ["right", "wrong"]
    now[0] += 59
    verdicts.get("hash 2", "right")
    assert asked == ["right", "wrong", "right"]
    now[0] += 1
    verdicts.get("hash 1", "right")
    assert asked == ["right", "wrong", "right", "right"]


def test_concurrent_verifications_of_one_password_hash_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    all_here = threading.Barrier(8)

    def verify(hash: str, text: str) -> bool:
        asked.append(text)
        return True

    def ask(_: int) -> bool:
        all_here.wait(HANG_SECONDS)
        return verdicts.get("hash", "right")

    monkeypatch.setattr(password, "_verify", verify)
    verdicts = VerificationCache()
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))
    assert asked == ["right"]


def test_the_number_of_cached_verifications_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password, "_verify", lambda hash, text: False)
    verdicts = VerificationCache(most=3)
    for index in range(10):
        verdicts.get("hash", str(index))
    assert len(verdicts._entries) == 3


def test_what_is_stored_of_a_password_is_an_argon2_hash_that_verifies() -> None:
    stored = hashed("correct horse")
    assert stored.startswith("$argon2id$")
    assert VerificationCache().get(stored, "correct horse")
    assert not VerificationCache().get(stored, "incorrect horse")
