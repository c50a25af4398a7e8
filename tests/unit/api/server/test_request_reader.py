from __future__ import annotations

import pytest
from gunicorn.config import Config
from hypothesis import given
from hypothesis import strategies as st

from api.server.request_reader import Phase, RequestReader

HEAD = b"POST /v1/job HTTP/1.1\r\nHost: x\r\n"
MAX_BODY = 100
WHOLE = {
    "no body": b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    "HTTP/1.0": b"GET /healthz HTTP/1.0\r\n\r\n",
    "an empty line first": b"\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a length": HEAD + b"Content-Length: 5\r\n\r\n12345",
    "no length": HEAD + b"Content-Length: 0\r\n\r\n",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n",
    "trailers": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n",
    "the largest body": HEAD + b"Content-Length: 100\r\n\r\n" + b"x" * MAX_BODY,
}


def a_reader() -> RequestReader:
    return RequestReader(Config(), MAX_BODY)


@pytest.mark.parametrize("request_bytes", WHOLE.values(), ids=WHOLE.keys())
def test_a_request_is_ready_with_its_last_byte_and_not_before(request_bytes: bytes) -> None:
    reader = a_reader()
    for position in range(len(request_bytes)):
        assert not reader.ready
        reader.feed(request_bytes[position : position + 1])
    assert reader.ready
    assert reader.received == request_bytes


@given(st.sampled_from(list(WHOLE.values())), st.data())
def test_it_does_not_matter_in_which_pieces_a_request_comes(request_bytes: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(request_bytes) - 1))))
    reader = a_reader()
    for start, end in zip([0, *cuts], [*cuts, len(request_bytes)], strict=True):
        assert not reader.ready
        reader.feed(request_bytes[start:end])
    assert reader.ready


@pytest.mark.parametrize(
    "refused",
    [
        HEAD + b"Content-Length: 101\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n65\r\n" + b"x" * 101,
    ],
    ids=["a length", "a chunk"],
)
def test_a_body_that_is_too_large_is_not_waited_for(refused: bytes) -> None:
    reader = a_reader()
    reader.feed(refused)
    assert reader.ready


@pytest.mark.parametrize(
    "refused",
    [
        b"no request\r\n",
        b"GET / HTTP/9.9\r\n",
        b"GET /" + b"x" * 10_000,
        HEAD + b"X: " + b"y" * 10_000,
        HEAD + b"X: y\r\n" * 101,
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nno size\r\n",
    ],
)
def test_a_malformed_request_is_not_waited_for(refused: bytes) -> None:
    reader = a_reader()
    reader.feed(refused)
    assert reader.ready


def test_the_phase_says_what_is_missing() -> None:
    reader = a_reader()
    assert reader.phase is Phase.IDLE
    reader.feed(b"POST")
    assert reader.phase is Phase.HEAD
    reader.feed(b" / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
    assert reader.phase is Phase.BODY
    reader.feed(b"1234")
    assert (reader.phase, reader.ready) == (Phase.BODY, False)


@pytest.mark.parametrize(("header", "expected"), [(b"Expect: 100-Continue\r\n", True), (b"", False)])
def test_who_waits_to_be_asked_for_the_body_is_known(header: bytes, expected: bool) -> None:
    reader = a_reader()
    reader.feed(HEAD + header + b"Content-Length: 5\r\n\r\n")
    assert reader.expects_continue is expected
