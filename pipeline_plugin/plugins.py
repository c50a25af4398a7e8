"""The six types of plugin: each has a function of its author's, and answers requests by it."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import hmac
import inspect
import json
import logging
import os
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Callable, NoReturn, TypeVar, Union, cast

from pipeline_plugin import asgi, log, wsgi
from pipeline_plugin.additions import Additions, Binding
from pipeline_plugin.answers import Acknowledgement, Decision, Factor, Rejected, encoded, received
from pipeline_plugin.memory import Memory
from pipeline_plugin.packets import BadPacket, Event, Packet, parsed
from pipeline_plugin.signing import is_signed, secret_key
from pipeline_plugin.web import Reply, Request, without_call

Function = TypeVar("Function", bound=Callable[..., Any])
Sent = Union[Mapping[str, Any], str, "os.PathLike[str]"]
"""A packet or an event as JSON, or the path of a file that has it."""
Wait = Callable[["Future[Any]"], Any]
"""Gives the result of a Future, or an awaitable of it."""

_logger = logging.getLogger("pipeline_plugin")


class App:
    """What answers requests: served as `wsgi`, as `asgi`, or by `pipeline_plugin.server`."""

    stopping = False
    """Set while the process ends: the health endpoint answers 503 then, so that no new calls are sent here."""

    @property
    def wsgi(self) -> wsgi.Application:
        """The plugin as a WSGI application, such as for `gunicorn --threads 64 plugin:app` with `app = gate.wsgi`."""
        return wsgi.application(self.respond)

    @property
    def asgi(self) -> asgi.Application:
        """The plugin as an ASGI application; functions may be `async`, others run in threads."""
        return asgi.application(self.respond_async)

    def respond(self, request: Request) -> Reply:
        """The answer to a request, made in this thread."""
        raise NotImplementedError

    async def respond_async(self, request: Request) -> Reply:
        """The answer to a request, without blocking the event loop."""
        raise NotImplementedError


class Plugin(App):
    """A plugin of one type. Its author's function is given by the method that the type names, used as a decorator.

    `signing_secret` and `authorization` are those of the feature; what does not have them is answered 401. They are read from
    PLUGIN_SIGNING_SECRET and PLUGIN_AUTHORIZATION unless they are given. `log` adds the job and the request to its lines.
    """

    type = ""

    def __init__(
        self,
        name: str,
        *,
        signing_secret: str | None = None,
        authorization: str | None = None,
        memory: Memory[Reply] | None = None,
    ) -> None:
        secret = os.environ.get("PLUGIN_SIGNING_SECRET", "") if signing_secret is None else signing_secret
        self.name = name
        self.log = logging.getLogger(f"pipeline_plugin.{name}")
        self._key = secret_key(secret) if secret else None
        self._authorization = os.environ.get("PLUGIN_AUTHORIZATION", "") if authorization is None else authorization
        self._memory: Memory[Reply] = Memory() if memory is None else memory
        self._function: Callable[..., Any] | None = None

    def test(self, sent: Sent, headers: Mapping[str, str] | None = None) -> Any:
        """What the plugin answers to a packet (or event), without HTTP: for tests.

        `sent` is JSON, or the path of a file with it. A Gate gives a Decision, a
        FactorGenerator a list of Factors, a LifeHook an Acknowledgement, all others a TaskSet.
        """
        if isinstance(sent, (str, os.PathLike)):
            sent = json.loads(Path(sent).read_text(encoding="utf-8"))
        given = {name.lower(): value for name, value in (headers or {}).items()}
        arguments = self._arguments(copy.deepcopy(sent), given)
        value = self._call(arguments)
        if inspect.isawaitable(value):
            value = asyncio.run(_awaited(value))
        answer = self._answer(arguments, value)
        self._reply(answer)
        return answer

    @property
    def is_async(self) -> bool:
        """Whether the author's function is `async`."""
        return inspect.iscoroutinefunction(self._function)

    def respond(self, request: Request) -> Reply:
        answering = self._logged(request, lambda future: future.result())
        if self.is_async:
            return asyncio.run(answering)
        try:
            answering.send(None)
        except StopIteration as done:
            return cast(Reply, done.value)
        raise RuntimeError("a function that is not async waits for something: declare it with `async def`")

    async def respond_async(self, request: Request) -> Reply:
        if self.is_async:
            return await self._logged(request, asyncio.wrap_future)
        return await asyncio.get_running_loop().run_in_executor(None, self.respond, request)

    async def _logged(self, request: Request, wait: Wait) -> Reply:
        if (plain := without_call(request, self.stopping)) is not None:
            return plain
        known = log.CALL.set(self._fields(request))
        started = time.monotonic()
        try:
            reply = await self._checked(request, wait)
            _logger.info(
                "answered",
                extra={log.FIELDS: {"status": reply.status, "ms": round((time.monotonic() - started) * 1000)}},
            )
            return reply
        finally:
            log.CALL.reset(known)

    def _register(self, function: Function) -> Function:
        if self._function is not None:
            raise RuntimeError(f"{self.name} has a function already")
        self._function = function
        return function

    async def _checked(self, request: Request, wait: Wait) -> Reply:
        if self._key is not None and not is_signed(self._key, request.headers, request.body):
            return Reply.error(401, "the signature is missing, wrong, or older than five minutes")
        if self._authorization:
            given = request.headers.get("authorization", "").encode("utf-8", "replace")
            if not hmac.compare_digest(given, self._authorization.encode()):
                return Reply.error(401, "the authorization is missing or wrong")
        name = request.headers.get("idempotency-key", "")
        if not name:
            return await self._made(request)
        key = f"{name} {hashlib.sha256(request.body).hexdigest()}"
        while True:
            claimed = self._memory.claim(key)
            if isinstance(claimed, Reply):
                return claimed
            if claimed is None:
                break
            found = wait(claimed)
            reply = (await found) if inspect.isawaitable(found) else found
            if reply is not None:
                return cast(Reply, reply)
        reply = None
        try:
            reply = await self._made(request)
            return reply
        finally:
            if reply is not None and reply.settled:
                self._memory.keep(key, reply, len(reply.body))
            else:
                self._memory.release(key)

    async def _made(self, request: Request) -> Reply:
        """The answer, by the author's function."""
        try:
            arguments = self._arguments(parsed(request.body), request.headers)
        except BadPacket as error:
            return Reply.error(400, str(error))
        try:
            value = self._call(arguments)
            if inspect.isawaitable(value):
                value = await value
            return self._reply(self._answer(arguments, value))
        except Rejected as error:
            return Reply.error(422, str(error))
        except Exception:
            _logger.exception("the plugin's function failed")
            return Reply.error(500, "the plugin's function failed; its log has the traceback")

    def _call(self, arguments: tuple[Any, ...]) -> Any:
        if self._function is None:
            raise RuntimeError(f"{self.name} has no function yet")
        return self._function(*arguments)

    def _fields(self, request: Request) -> Mapping[str, str]:
        names = {"jobID": "x-job-id", "requestID": "x-request-id", "idempotencyKey": "idempotency-key"}
        found = {name: request.headers.get(header, "") for name, header in names.items()}
        return {"plugin": self.name, **{name: value for name, value in found.items() if value}}

    def _arguments(self, document: Any, headers: Mapping[str, str]) -> tuple[Any, ...]:
        """What the author's function is called with. Raises BadPacket."""
        return (Packet.read(document, headers),)

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> Any:
        """The answer of what the author's function returned. Raises TypeError or ValueError for what is none."""
        raise NotImplementedError

    def _reply(self, answer: Any) -> Reply:
        """The reply with an answer. Raises TypeError or ValueError for what is no JSON."""
        return Reply(200, encoded(answer), settled=True)

    def _wrong(self, value: Any, right: str) -> NoReturn:
        raise TypeError(f"{self.name} returned {value!r:.200}; {right} was expected")


class Translator(Plugin):
    """A TemplateTranslator. Its function gets a packet and returns a TaskSet, or raises Rejected for a job that is wrong."""

    type = "TemplateTranslator"

    def translate(self, function: Function) -> Function:
        return self._register(function)

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> Any:
        if not isinstance(value, dict) or value.get("kind") != "TaskSet" or not isinstance(value.get("spec"), dict):
            self._wrong(value, "a TaskSet")
        roles = value["spec"].get("roles")
        if not isinstance(roles, list) or not roles:
            self._wrong(value, "a TaskSet with at least one role")
        return value


class FactorGenerator(Plugin):
    """Its function gets a packet and returns a Factor, a list of them, or None."""

    type = "FactorGenerator"

    def generate(self, function: Function) -> Function:
        return self._register(function)

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> list[Factor]:
        factors = [] if value is None else [value] if isinstance(value, Factor) else value
        if not isinstance(factors, (list, tuple)) or not all(isinstance(one, Factor) for one in factors):
            self._wrong(value, "factor(…), a list of them, or None")
        return list(factors)

    def _reply(self, answer: Any) -> Reply:
        return super()._reply([one.document() for one in answer])


class Gate(Plugin):
    """An AccessGate. Its function gets a packet and returns `passed()`, `suspend()` or `stop()`."""

    type = "AccessGate"

    def decide(self, function: Function) -> Function:
        return self._register(function)

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> Decision:
        if not isinstance(value, Decision):
            self._wrong(value, "passed(), suspend() or stop()")
        return value

    def _reply(self, answer: Any) -> Reply:
        return super()._reply(answer.document())


class _Adding(Plugin):
    """A plugin whose function gets a packet and what it may do to the TaskSet, and returns nothing."""

    _what: type[Additions] = Additions

    def _arguments(self, document: Any, headers: Mapping[str, str]) -> tuple[Any, ...]:
        packet = Packet.read(document, headers)
        try:
            return packet, self._what(packet.job)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise BadPacket("`job` is not a TaskSet") from None

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> Any:
        if value is not None:
            self._wrong(value, "nothing (add to the TaskSet that it is given)")
        return arguments[1].document


class Decorator(_Adding):
    """A TemplateDecorator. Its function gets a packet and the TaskSet's Additions, adds to these, and returns nothing."""

    type = "TemplateDecorator"

    def decorate(self, function: Function) -> Function:
        return self._register(function)


class Binder(_Adding):
    """A SchedulerBinder. Its function gets a packet and the TaskSet's Binding, sets and adds there, and returns nothing."""

    type = "SchedulerBinder"
    _what = Binding

    def bind(self, function: Function) -> Function:
        return self._register(function)


class LifeHook(Plugin):
    """Its function gets an Event and returns nothing (or `received()`), `retry()` or `give_up()`."""

    type = "LifeHook"

    def receive(self, function: Function) -> Function:
        return self._register(function)

    def _arguments(self, document: Any, headers: Mapping[str, str]) -> tuple[Any, ...]:
        return (Event.read(document, headers),)

    def _answer(self, arguments: tuple[Any, ...], value: Any) -> Acknowledgement:
        answer = received() if value is None else value
        if not isinstance(answer, Acknowledgement):
            self._wrong(value, "received(), retry(), give_up() or None")
        return answer

    def _reply(self, answer: Any) -> Reply:
        return Reply(200, answer.word.encode(), "text/plain", answer.headers(), settled=answer.word != "RE")


class Plugins(App):
    """Several plugins in one process, by their paths: `Plugins({"/gate": gate, "/hook": hook})`."""

    def __init__(self, plugins: Mapping[str, Plugin]) -> None:
        self._plugins = dict(plugins)

    def respond(self, request: Request) -> Reply:
        found = self._found(request)
        return found if isinstance(found, Reply) else found.respond(request)

    async def respond_async(self, request: Request) -> Reply:
        found = self._found(request)
        return found if isinstance(found, Reply) else await found.respond_async(request)

    def _found(self, request: Request) -> Reply | Plugin:
        if (plain := without_call(request, self.stopping)) is not None:
            return plain
        missing = Reply.error(404, f"there is no plugin here; there are: {', '.join(sorted(self._plugins))}")
        return self._plugins.get(request.path, missing)


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value
