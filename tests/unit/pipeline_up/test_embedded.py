from __future__ import annotations

from pipeline_up.embedded import postgres, redis


def test_quotes_in_settings_cannot_end_them() -> None:
    assert postgres.configuration_text({"a": "it's"}) == "a = 'it''s'\n"
    assert redis.configuration_text({"dir": 'a"b\\c'}) == 'dir "a\\"b\\\\c"\n'
