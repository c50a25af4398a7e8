"""What is remembered under an `Idempotency-Key`."""

from __future__ import annotations

from concurrent.futures import Future

from pipeline_plugin.memory import Memory


def kept(memory: Memory[str], *keys: str) -> list[str]:
    for key in keys:
        assert memory.claim(key) is None
        memory.keep(key, key.upper(), 1)
    return list(keys)


def known(memory: Memory[str], key: str) -> bool:
    found = memory.claim(key)
    if found is None:
        memory.release(key)
    return found is not None


def test_the_newest_answers_are_kept() -> None:
    memory = Memory[str](entries=2)
    kept(memory, "a", "b")
    assert known(memory, "a"), "asking for it makes it newer"
    kept(memory, "c")
    assert [known(memory, key) for key in "abc"] == [True, False, True]


def test_no_more_bytes_are_kept_than_are_allowed() -> None:
    memory = Memory[str](size=10)
    for key, size in (("a", 6), ("b", 6), ("c", 11)):
        assert memory.claim(key) is None
        memory.keep(key, key, size)
    assert [known(memory, key) for key in "abc"] == [False, True, False]


def test_who_asks_meanwhile_waits_for_the_answer() -> None:
    memory = Memory[str]()
    assert memory.claim("a") is None
    waiting = memory.claim("a")
    assert isinstance(waiting, Future)
    memory.keep("a", "A", 1)
    assert waiting.result(0) == "A"
    assert memory.claim("a") == "A"


def test_who_waits_for_an_answer_that_fails_makes_one_of_its_own() -> None:
    memory = Memory[str]()
    assert memory.claim("a") is None
    waiting = memory.claim("a")
    assert isinstance(waiting, Future)
    memory.release("a")
    assert waiting.result(0) is None
    assert memory.claim("a") is None
