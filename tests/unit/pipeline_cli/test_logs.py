"""What a job wrote, as a terminal is given it; and when a token expires."""

from __future__ import annotations

import re

import pytest

from pipeline_cli.logs import for_terminal
from pipeline_cli.options import Expiry


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain\ttext\n", "plain\ttext\n"),
        ("\u00fc\u4e2d\n".encode(), "\u00fc\u4e2d\n"),
        (b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m\n\x1b[0m"),
        (b"\x1b]0;not yours\x07\x1b[2Jshown\n", "^[]0;not yours^G^[[2Jshown\n"),
        (b"\x1b[2J\x1b[1;31m!", "^[[2J\x1b[1;31m!\x1b[0m"),
        (b"1/150\r2/150\r\nend\n", "1/150\n2/150\nend\n"),
        ("\u009b2J\u202eabc".encode(), "<U+009B>2J<U+202E>abc"),
        (b"a\x08b\x7f\x00", "a^Hb^?^@"),
        (b"a\r\r\nb", "a\nb"),
        (b"\xff\n", "\ufffd\n"),
        (b"ends in \x1b", "ends in ^["),
    ],
)
def test_a_terminal_is_given_colours_and_no_other_control(written: bytes, shown: str) -> None:
    whole = b"".join(for_terminal([written])).decode()
    assert whole == shown
    assert b"".join(for_terminal([bytes([byte]) for byte in written])).decode() == whole


@pytest.mark.parametrize("given", ["90s", "30m", "12h", "7d"])
def test_a_span_from_now_is_a_time_to_come(given: str) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", Expiry().convert(given, None, None))


def test_a_time_is_taken_as_it_is() -> None:
    assert Expiry().convert("2027-01-01T00:00:00Z", None, None) == "2027-01-01T00:00:00Z"
