"""Plugins that are right but for one thing each, by the rule that they break."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from itertools import count
from typing import Any

from pipeline_core.plugins.types import PluginType
from tests.waiting import HANG_SECONDS

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()
GATE, DECORATOR = PluginType.ACCESS_GATE, PluginType.TEMPLATE_DECORATOR
BINDER, GENERATOR = PluginType.SCHEDULER_BINDER, PluginType.FACTOR_GENERATOR
PASS = {"decision": "pass", "reason": "fine"}


class Right(BaseHTTPRequestHandler):
    """A plugin that is right: a gate, unless `decide` says otherwise."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1
    seconds = HANG_SECONDS
    """How long a check waits for an answer: briefly where the point is that none comes."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            packet = json.loads(body)
            assert isinstance(packet, dict)
        except (ValueError, AssertionError):
            self.garbage()
            return
        if not self.signed(body):
            self.reply(401, {"error": "signature"})
            return
        try:
            answer = self.decide(packet)
        except Exception:  # noqa: BLE001
            self.reply(500, {"error": "crash"})
            return
        self.reply(200, answer)

    def decide(self, packet: Any) -> Any:
        return PASS

    def garbage(self) -> None:
        self.reply(400, {"error": "garbage"})

    def signed(self, body: bytes) -> bool:
        return self.signature_is_right(body) and self.is_recent()

    def signature_is_right(self, body: bytes) -> bool:
        key = base64.b64decode(SECRET.removeprefix("whsec_"))
        content = f"{self.headers.get('webhook-id')}.{self.headers.get('webhook-timestamp')}.".encode() + body
        expected = "v1," + base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
        return expected in (self.headers.get("webhook-signature") or "").split(" ")

    def is_recent(self) -> bool:
        return abs(time.time() - int(self.headers.get("webhook-timestamp") or 0)) < 300

    def reply(self, status: int, document: Any, **headers: str) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False

    def handle_error(self, *_: Any) -> None:
        pass


class OneAtATime(HTTPServer):
    request_queue_size = 128


def deciding(function: Callable[[Any], Any]) -> type[Right]:
    return type("Deciding", (Right,), {"decide": lambda self, packet: function(packet)})


def changed(edit: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def decide(packet: Any) -> Any:
        job = copy.deepcopy(packet["job"])
        edit(job["spec"]["roles"][0]["template"]["spec"])
        return job

    return decide


class Crashes(Right):
    def do_POST(self) -> None:
        self.close_connection = True


class Hangs(Right):
    seconds = 0.5

    def do_POST(self) -> None:
        self.rfile.read()


class HangsLater(Right):
    """Answers once, and then no more."""

    seconds = 2
    answered = False

    def do_POST(self) -> None:
        if self.answered:
            self.rfile.read()
        type(self).answered = True
        super().do_POST()


class Drips(Right):
    seconds = 0.5

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.flush()
        ended = threading.Event()
        while not ended.wait(0.05):
            self.wfile.write(b" ")
            self.wfile.flush()


class Babbles(Right):
    def do_POST(self) -> None:
        self.wfile.write(b"what do you want?\r\n\r\n")
        self.close_connection = True


class Floods(Right):
    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        for _ in range(1600):
            self.wfile.write(b" " * 65536)


class Redirects(Right):
    def do_POST(self) -> None:
        self.reply(307, {}, Location="http://127.0.0.1:1/")


class Creates(Right):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.reply(201, PASS)


class Forgets(Right):
    numbers = count()

    def decide(self, packet: Any) -> Any:
        return {"decision": "pass", "reason": f"number {next(self.numbers)}"}


class Strict(Right):
    def decide(self, packet: Any) -> Any:
        assert set(packet) == {"factors", "header", "job"}
        return PASS


class Small(Right):
    def do_POST(self) -> None:
        if int(self.headers["Content-Length"]) > 500_000:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(413, {"error": "large"})
        else:
            super().do_POST()


class Closes(Right):
    def reply(self, status: int, document: Any, **headers: str) -> None:
        super().reply(status, document)
        self.close_connection = True


class Few(Right):
    places = threading.Semaphore(8)

    def do_POST(self) -> None:
        if not self.places.acquire(blocking=False):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(503, {"error": "busy"})
            return
        try:
            threading.Event().wait(0.2)
            super().do_POST()
        finally:
            self.places.release()


class Blocks(Right):
    # Many calls at once are answered one after the other within this time.
    seconds = 3
    protocol_version = "HTTP/1.0"


class Unsigned(Right):
    def signed(self, body: bytes) -> bool:
        return "webhook-signature" not in self.headers or super().signed(body)


class AnySignature(Right):
    def signature_is_right(self, body: bytes) -> bool:
        return "webhook-signature" in self.headers


class OldSignature(Right):
    def is_recent(self) -> bool:
        return True


class TakesGarbage(Right):
    def garbage(self) -> None:
        self.reply(200, PASS)


class FailsOnGarbage(Right):
    def garbage(self) -> None:
        self.reply(500, {"error": "crash"})


class DiesOfGarbage(Right):
    dead = False

    def garbage(self) -> None:
        super().garbage()
        type(self).dead = True

    def decide(self, packet: Any) -> Any:
        assert not self.dead
        return PASS


def name_of_first_role(packet: Any) -> Any:
    assert packet["job"]["spec"]["roles"][0]["name"] == "main"
    return PASS


def few_replicas(packet: Any) -> Any:
    assert packet["job"]["spec"]["roles"][0].get("replicas", 1) <= 100
    return PASS


def in_ascii(packet: Any) -> Any:
    json.dumps(packet, ensure_ascii=False).encode("ascii")
    return PASS


def numbers_only(packet: Any) -> Any:
    return {"decision": "pass", "reason": str([float(f["advice"]) for f in packet["factors"].get("priority", [])])}


WRONG: list[tuple[str, str, PluginType, type[Right]]] = [
    ("crashes", "reachable", GATE, Crashes),
    ("hangs", "in-time", GATE, Hangs),
    ("drips", "in-time", GATE, Drips),
    ("babbles", "http", GATE, Babbles),
    ("floods", "size", GATE, Floods),
    ("redirects", "status", GATE, Redirects),
    ("answers 201", "status", GATE, Creates),
    ("fails", "status", GATE, deciding(lambda packet: packet["nothing"])),
    ("shouts", "answer", GATE, deciding(lambda packet: {"decision": "PASS"})),
    ("answers a factor", "answer", GENERATOR, deciding(lambda packet: {"topic": "priority"})),
    ("answers no TaskSet", "answer", DECORATOR, deciding(lambda packet: {"kind": "TaskSet"})),
    ("answers a word as JSON", "answer", PluginType.LIFE_HOOK, deciding(lambda event: {"status": "OK"})),
    (
        "changes an image",
        "additive",
        DECORATOR,
        deciding(changed(lambda pod: pod["containers"][0].update(image="other"))),
    ),
    ("schedules", "additive", DECORATOR, deciding(changed(lambda pod: pod.update(schedulerName="volcano")))),
    ("removes", "additive", BINDER, deciding(changed(lambda pod: pod["containers"].pop()))),
    ("breaks out", "pod-policy", DECORATOR, deciding(changed(lambda pod: pod.update(hostNetwork=True)))),
    ("forgets what it answered", "idempotency", GATE, Forgets),
    ("knows all fields", "unknown-fields", GATE, Strict),
    (
        "needs a factor",
        "no-factors",
        GATE,
        deciding(lambda packet: {"decision": "pass", "reason": packet["factors"]["priority"][0]["reason"]}),
    ),
    ("takes numbers only", "many-factors", GATE, deciding(numbers_only)),
    ("knows ASCII only", "unicode", GATE, deciding(in_ascii)),
    ("counts to a hundred", "many-replicas", GATE, deciding(few_replicas)),
    ("takes small bodies only", "large", GATE, Small),
    ("takes the first role", "order", GATE, deciding(name_of_first_role)),
    ("closes without a word", "keep-alive", GATE, Closes),
    ("takes eight calls at a time", "concurrency", GATE, Few),
    ("takes one client at a time", "slow-client", GATE, Blocks),
    ("takes what is not signed", "signature-missing", GATE, Unsigned),
    ("takes any signature", "signature-wrong", GATE, AnySignature),
    ("takes old signatures", "signature-old", GATE, OldSignature),
    ("takes garbage", "garbage", GATE, TakesGarbage),
    ("fails on garbage", "garbage", GATE, FailsOnGarbage),
    ("dies of garbage", "survives", GATE, DiesOfGarbage),
]


@contextmanager
def served(handler: type[Right]) -> Iterator[str]:
    """Serves a plugin in this process; its URL."""
    server = (OneAtATime if handler is Blocks else Server)(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
