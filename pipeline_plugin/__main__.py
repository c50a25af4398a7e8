"""`python -m pipeline_plugin module:name --port 9000`: serve a plugin until it is stopped."""

from __future__ import annotations

import argparse
import importlib
import sys

from pipeline_plugin import log
from pipeline_plugin.plugins import App
from pipeline_plugin.server import serve


def found(target: str) -> App:
    """The plugin that `module:name` is. Raises SystemExit, saying what is wrong."""
    module, _, name = target.partition(":")
    if not name:
        raise SystemExit(f"{target!r} is not module:name, such as plugin:gate")
    plugin = getattr(importlib.import_module(module), name, None)
    if not isinstance(plugin, App):
        raise SystemExit(f"{target} is {type(plugin).__name__}; a plugin (or Plugins) of pipeline_plugin was expected")
    return plugin


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pipeline_plugin", description="Serve a plugin of Pipeline.")
    parser.add_argument("plugin", help="module:name, such as plugin:gate")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; 0.0.0.0 in a container")
    parser.add_argument("--port", type=int, default=9000)
    given = parser.parse_args(arguments)
    sys.path.insert(0, "")
    log.configure()
    return 0 if serve(found(given.plugin), given.host, given.port) else 1


if __name__ == "__main__":
    sys.exit(main())
