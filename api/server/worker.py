"""gunicorn's threaded worker, with all waiting for clients done by its event loop."""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from gunicorn.http.parser import RequestParser
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER, TConn, ThreadWorker

from api.server.client_socket import ClientSocket
from api.server.connections import Connections, Limits
from api.server.request_reader import READ_BYTES, Phase, RequestReader
from pipeline_core.common.client_network import client_network
from pipeline_core.common.imports import lean_imports
from pipeline_core.settings import ApiSettings, settings

# gunicorn loads this before the application.
with lean_imports():
    from pipeline_core.jobs.feed_tail import feed_tail

RECEIVE_BYTES = 65536
BYTES_HELD = 64 * 1024 * 1024
"""How much all requests of a worker may take that are being received, or wait for a thread."""

ANSWER_SECONDS = 30.0
"""How long a client may take to read what is left of an answer when the thread is done with it."""

CLOSE_SECONDS = 2.0
"""How long the client may go on sending after the last answer: a socket that is closed with unread data resets the
connection, and the client may lose the answer."""

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class WorkerConnection(TConn):
    """A connection, with the request that is being received on it."""

    sock: ClientSocket

    def __init__(self, config: Any, accepted: socket.socket, address: Any, server: Any) -> None:
        super().__init__(config, ClientSocket(accepted), address, server)
        self.network = client_network(address[0]) if isinstance(address, tuple) else ""
        self.initialized = True
        self.size = 0
        self.phase: Phase | None = None
        self.deadline = 0.0
        self.keep = True
        self.continued = False
        self.drained = 0
        self.reader = RequestReader(config, READ_BYTES)

    def next_request(self, received: bytes) -> None:
        """Start over with what was received of the next request already."""
        self.continued = False
        self.reader = RequestReader(self.cfg, READ_BYTES)
        if received:
            self.reader.feed(received)


class BufferingWorker(ThreadWorker):
    """Gives a thread only to requests that were received whole, and takes answers back that a client reads slowly.

    All but `handle_request` runs in the main thread. Uses of gunicorn's class that are replaced: how connections are
    accepted, kept alive, timed out and closed. Process management, parsing, WSGI and the graceful stop are gunicorn's.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        api = settings()
        self._seconds = _seconds(api, self.cfg.keepalive)
        self.connections: Connections[WorkerConnection] = Connections(_limits(api))
        # gunicorn stops accepting at this number: reached only when no connection waits, so that none can be closed.
        self.worker_connections = api.api_connections + 1
        self._next_check = 0.0

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection, and close others where there are too many."""
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._close_one()
            elif error.errno not in (errno.EAGAIN, errno.ECONNABORTED):
                raise
            return
        connection = WorkerConnection(self.cfg, accepted, address, listener.getsockname())
        self.nr_conns += 1
        self.connections.opened(connection)
        self._make_room(connection)
        self._receive(connection)

    def handle_request(self, request: Any, connection: WorkerConnection) -> Any:
        """Serve a request, in a thread. Its body is there already: gunicorn does not ask the client for it."""
        request._expected_100_continue = False
        return super().handle_request(request, connection)

    def finish_request(self, connection: WorkerConnection, future: Future[Any]) -> None:
        """Take a connection back from the thread that has served it."""
        connection.keep = not future.cancelled() and not future.exception() and future.result() is True
        connection.next_request(connection.parser.unreader.take_buffered() if connection.keep else b"")
        self.connections.hold(connection, len(connection.reader.received))
        self._send(connection)

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections that have waited for too long, or all that wait. Looks once a second."""
        now = time.monotonic()
        if now >= self._next_check or force:
            self._next_check = now + 1
            for connection in self.connections.waiting():
                if force or connection.deadline <= now:
                    self._close(connection)

    def _cap_keepalive(self, deadline: float) -> None:
        """Let no client hold up the stop: who waits for events is answered, and requests that are not received whole by then are
        dropped."""
        feed_tail().close()
        for connection in self.connections.waiting():
            connection.deadline = min(connection.deadline, deadline)

    def _receive(self, connection: WorkerConnection) -> None:
        """Read what has come of a request, and have it served once it is ready."""
        if not connection.reader.ready:
            try:
                data = connection.sock.recv(RECEIVE_BYTES)
            except BlockingIOError:
                return self._wait(connection, selectors.EVENT_READ, self._receive, connection.reader.phase)
            except OSError:
                data = b""
            if not data:
                return self._close(connection)
            connection.reader.feed(data)
            self.connections.hold(connection, len(connection.reader.received))
        if connection.reader.ready:
            return self._serve(connection)
        if connection.reader.expects_continue and not connection.continued:
            connection.continued = True
            try:
                connection.sock.sendall(CONTINUE)
            except OSError:
                return self._close(connection)
        self._wait(connection, selectors.EVENT_READ, self._receive, connection.reader.phase)
        self._make_room(connection)

    def _serve(self, connection: WorkerConnection) -> None:
        self._stop_waiting(connection)
        connection.parser = RequestParser(self.cfg, [bytes(connection.reader.received)], connection.client)
        self.enqueue_req(connection)

    def _send(self, connection: WorkerConnection) -> None:
        """Send what the client has not taken of the answer; then go on with the next request, or close."""
        try:
            sent = connection.sock.flush()
        except OSError:
            return self._close(connection)
        if not sent:
            return self._wait(connection, selectors.EVENT_WRITE, self._send, Phase.ANSWER)
        self._stop_waiting(connection)
        if connection.keep:
            return self._receive(connection)
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            return self._close(connection)
        self._drain(connection)

    def _drain(self, connection: WorkerConnection) -> None:
        """Read what the client still sends after the last answer, until it closes the connection."""
        try:
            data = connection.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            data = None
        except OSError:
            data = b""
        connection.drained += len(data or b"")
        if data == b"" or connection.drained > READ_BYTES:
            return self._close(connection)
        self._wait(connection, selectors.EVENT_READ, self._drain, Phase.CLOSE)

    def _wait(
        self, connection: WorkerConnection, event: int, then: Callable[[WorkerConnection], None], phase: Phase
    ) -> None:
        """Have `then` called at the event; the time for what is waited for begins where it was not waited for before."""
        if phase is not connection.phase:
            connection.deadline = time.monotonic() + self._seconds_of(phase)
            if connection.phase is None:
                self.connections.wait(connection)
                self.poller.register(connection.sock, event, lambda _: self._go_on(connection, then))
            connection.phase = phase

    def _go_on(self, connection: WorkerConnection, then: Callable[[WorkerConnection], None]) -> None:
        """Not if another event that was found in the same round has closed the connection."""
        if connection.phase is not None:
            then(connection)

    def _seconds_of(self, phase: Phase) -> float:
        seconds = self._seconds[phase]
        return seconds if self.alive else min(seconds, STOP_KEEPALIVE_LINGER)

    def _stop_waiting(self, connection: WorkerConnection) -> None:
        if connection.phase is not None:
            connection.phase = None
            self.connections.stop_waiting(connection)
            self.poller.unregister(connection.sock)

    def _make_room(self, connection: WorkerConnection) -> None:
        while surplus := self.connections.surplus(connection.network):
            self._close(surplus)

    def _close_one(self) -> None:
        """Make room for a file descriptor."""
        for connection in self.connections.waiting()[:1]:
            self._close(connection)

    def _close(self, connection: WorkerConnection) -> None:
        self._stop_waiting(connection)
        self.connections.closed(connection)
        self.nr_conns -= 1
        connection.close()


def _limits(api: ApiSettings) -> Limits:
    """A proxy has all connections of its clients, and limits them itself."""
    return Limits(
        connections=api.api_connections,
        of_a_client=None if api.trusted_proxies else api.api_connections_per_address,
        bytes_held=BYTES_HELD,
    )


def _seconds(api: ApiSettings, keep_alive: float) -> dict[Phase, float]:
    return {
        Phase.IDLE: keep_alive,
        Phase.HEAD: api.request_head_seconds,
        Phase.BODY: api.request_body_seconds,
        Phase.ANSWER: ANSWER_SECONDS,
        Phase.CLOSE: CLOSE_SECONDS,
    }
