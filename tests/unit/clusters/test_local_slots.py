"""Who is served next on the local cluster."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline_core.clusters.local.slots import in_turn

tickets = st.sets(
    st.builds("{:020d}-{:08x}-{}".format, st.integers(0, 50), st.integers(0, 3), st.sampled_from(["a", "b-c", "d.e"]))
)


def test_users_take_turns() -> None:
    line = ["01-aa-one", "02-aa-two", "03-aa-three", "04-bb-one", "05-bb-two", "06-cc-one"]
    assert in_turn(line) == ["01-aa-one", "04-bb-one", "06-cc-one", "02-aa-two", "05-bb-two", "03-aa-three"]


@given(tickets)
def test_everybody_is_in_line_once_and_a_users_own_tickets_stay_in_order(line: set[str]) -> None:
    served = in_turn(line)
    assert sorted(served) == sorted(line)
    for user in {ticket.split("-")[1] for ticket in line}:
        mine = [ticket for ticket in served if ticket.split("-")[1] == user]
        assert mine == sorted(mine)


@given(tickets)
def test_nobody_is_served_twice_before_another_is_served_once(line: set[str]) -> None:
    users = {ticket.split("-")[1] for ticket in line}
    assert {ticket.split("-")[1] for ticket in in_turn(line)[: len(users)]} == users
