from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.taskset.command import LeadingScript, LeadingWords, growth, script_index

SHELL = ["sh", "-c", "run"]


@pytest.mark.parametrize(
    ("command", "index"),
    [
        (["sh", "-c", "run"], 2),
        (["/bin/bash", "-lc", "run", "name", "arg"], 2),
        (["bash", "-e", "-c", "run"], 3),
        (["bash", "-euo", "pipefail", "-c", "run"], 4),
        (["bash", "-ceuo", "pipefail", "run"], 3),
        (["bash", "-c", "-e", "run"], 3),
        (["bash", "+x", "-c", "run"], 3),
        (["bash", "--norc", "-c", "run"], 3),
        (["zsh", "-c", "--", "run"], 3),
        (["bash", "script.sh", "-c", "run"], None),
        (["bash", "+c", "run"], None),
        (["sh", "-c"], None),
        (["sh"], None),
        (["python", "-c", "run"], None),
        (["fish", "-c", "run"], None),
        ([], None),
    ],
)
def test_the_script_of_a_shell_is_found(command: list[str], index: int | None) -> None:
    assert script_index(command) == index


@pytest.mark.parametrize(
    "text",
    ["prepare; ", "prepare;", "cd /data && ", "set -e\n", "a\n  ", "# a comment\n", "echo '#'; ", "a\nb;"],
)
def test_text_that_ends_a_command_may_stand_before_a_script(text: str) -> None:
    assert growth(SHELL, ["sh", "-c", f"{text}run"]) == LeadingScript(2, text)


@pytest.mark.parametrize(
    "new",
    [
        *(
            ["sh", "-c", f"{text}run"]
            for text in ["echo ", "# ", "# a; ", "a\n# b; ", "a \\\n", "find . \\; ", "a | ", "a & ", " "]
        ),
        ["sh", "-c", "run; post"],
        ["sh", "-c", "post"],
        ["sh", "-c", "pre", "run"],
        ["sh", "-e", "-c", "run"],
        ["bash", "-c", "pre; run"],
        ["nice", "sh", "-c", "pre; run"],
        ["sh", "-c"],
        ["run", "-c", "sh"],
        ["sh", "-c", "run", "x"],
        [],
    ],
)
def test_anything_else_is_no_growth(new: list[str]) -> None:
    assert growth(SHELL, new) is None


def test_only_the_script_may_get_text() -> None:
    assert growth(["sh", "-c", "run", "name"], ["sh", "-c", "run", "pre; name"]) is None
    assert growth(["python", "-c", "run"], ["python", "-c", "pre; run"]) is None


def test_an_empty_command_is_none() -> None:
    assert growth([], []) == LeadingWords(())
    assert growth([], ["sh"]) is None


@given(st.lists(st.text(max_size=3), min_size=1, max_size=4), st.lists(st.text(max_size=3), max_size=3))
def test_words_may_stand_before_any_command(old: list[str], words: list[str]) -> None:
    assert growth(old, words + old) == LeadingWords(tuple(words))


@given(st.lists(st.text(max_size=3), max_size=4), st.lists(st.text(max_size=3), max_size=4))
def test_whatever_is_growth_still_ends_with_the_old_command(old: list[str], new: list[str]) -> None:
    match growth(old, new):
        case LeadingWords(words):
            assert [*words, *old] == new
        case LeadingScript(index, text):
            assert [*old[:index], text + old[index], *old[index + 1 :]] == new
