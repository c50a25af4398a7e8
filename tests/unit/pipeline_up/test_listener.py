from __future__ import annotations

import pytest

from pipeline_core.errors import ConfigurationError
from pipeline_up.listener import Listener


@pytest.mark.parametrize(
    ("host", "loopback", "url"),
    [("127.0.0.1", True, "http://127.0.0.1:{}"), ("localhost", True, None), ("0.0.0.0", False, "http://127.0.0.1:{}")],
)
def test_a_listener_knows_who_can_reach_it(host: str, loopback: bool, url: str | None) -> None:
    listener = Listener(host, 0)
    assert listener.loopback is loopback
    assert url is None or listener.url == url.format(listener.port)
    listener.close()


def test_an_unknown_host_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"There is no address nowhere\.invalid"):
        Listener("nowhere.invalid", 0)
