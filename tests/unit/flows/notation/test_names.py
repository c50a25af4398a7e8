from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.names import NAME, check_flow_name, check_name, check_user, identity


@pytest.mark.parametrize("name", ["a", "A_b-1", "a" * 54])
def test_names_are_letters_and_some_more(name: str) -> None:
    assert check_name(name) == check_flow_name(name) == name


@pytest.mark.parametrize("name", ["", "1a", "-a", "a b", "a.b", "a" * 55, "ä", "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(NotationError, match="must be a letter"):
        check_name(name)


@pytest.mark.parametrize("name", ["import", "Export"])
def test_words_of_the_api_are_no_names_of_flows(name: str) -> None:
    assert check_name(name) == name
    with pytest.raises(NotationError, match="words of the API"):
        check_flow_name(name)


@pytest.mark.parametrize(("user", "valid"), [("li.lei", True), ("7", True), (".a", False), ("a/b", False), ("", False)])
def test_users_are_names_of_directories(user: str, valid: bool) -> None:
    if valid:
        assert check_user(user) == user
    else:
        with pytest.raises(NotationError):
            check_user(user)


@given(st.from_regex(NAME, fullmatch=True))
def test_an_identity_is_the_same_for_all_spellings(name: str) -> None:
    assert identity(identity(name)) == identity(name) == identity(name.upper()) == identity(name.replace("-", "_"))
