"""All six types of plugin in one small process: what the service calls, in plain Flask.

    python examples/plugins/server.py --port 9100

Each plugin is one function, from the JSON that the service sends to the JSON that it expects; this module only gives
them addresses. Nothing of Pipeline is imported: a plugin may be written in any language.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

from command_decorator import decorate
from flask import Flask, Response, abort, jsonify, request
from header_gate import decide
from kubeflow_jobs import Untranslatable
from life_hook import Hook
from mpijob_translator import translate as translate_mpijob
from priority_binder import bind
from priority_factors import by_history, by_size, by_user
from pytorchjob_translator import translate as translate_pytorchjob
from tfjob_translator import translate as translate_tfjob

DEFAULT_PORT = 9100
# Every Kubernetes cluster has this one; name another that yours runs.
DEFAULT_SCHEDULER = "default-scheduler"


def create_app(scheduler: str = DEFAULT_SCHEDULER) -> Flask:
    """The plugins under their addresses; each app remembers what its own LifeHook was sent."""
    app = Flask(__name__)
    hook = Hook()
    plugins: dict[str, Callable[[Any], Any]] = {
        "/translate/tfjob": translate_tfjob,
        "/translate/pytorchjob": translate_pytorchjob,
        "/translate/mpijob": translate_mpijob,
        "/factors/user": by_user,
        "/factors/size": by_size,
        "/factors/history": lambda packet: by_history(packet, hook.endings(packet["header"]["userID"])),
        "/gate/header": decide,
        "/decorate/command": decorate,
        "/bind/priority": lambda packet: bind(packet, scheduler),
    }
    for address, plugin in plugins.items():
        app.add_url_rule(address, address, answer_with(plugin), methods=["POST"])

    @app.post("/hook")
    def hear() -> Response:
        return Response(hook.hear(sent(), request.headers.get("Idempotency-Key", "")), mimetype="text/plain")

    @app.get("/received")
    def received() -> Response:
        return jsonify(hook.received())

    @app.errorhandler(Untranslatable)
    def refuse(error: Untranslatable) -> tuple[Response, int]:
        # A translator's 4xx says that the job is wrong: it fails, and its reason quotes `error`.
        return jsonify(error=str(error)), 422

    return app


def answer_with(plugin: Callable[[Any], Any]) -> Callable[[], Response]:
    return lambda: jsonify(plugin(sent()))


def sent() -> dict[str, Any]:
    """The packet, or event, of this request. What is none is answered with status 400."""
    document = request.get_json()
    if not isinstance(document, dict):
        abort(400, "a JSON object was expected")
    return document


def main() -> None:
    parser = argparse.ArgumentParser(description="Example plugins for Pipeline.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT)
    parser.add_argument("--scheduler", default=os.environ.get("SCHEDULER", DEFAULT_SCHEDULER))
    arguments = parser.parse_args()
    create_app(arguments.scheduler).run(arguments.host, arguments.port, threaded=True)


if __name__ == "__main__":
    main()
