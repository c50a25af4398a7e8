"""What commands print, for people and into pipes."""

from __future__ import annotations

import pytest

from pipeline_cli.output import Output
from pipeline_cli.render import trail


def test_rows_of_a_piped_table_end_with_their_last_word(capsys: pytest.CaptureFixture[str]) -> None:
    calls = [
        {"plugin": "AccessGate.a.ann", "decision": "stop", "reason": "too large " * 100 + "["},
        {"plugin": "AccessGate.b.ann", "decision": "pass"},
    ]
    Output("table").show(calls, trail)
    printed = capsys.readouterr().out
    header, long, short = printed.removesuffix("\n").split("\n")
    assert (header[-4:], long[-1], short[-4:]) == ("WHAT", "[", "pass")
