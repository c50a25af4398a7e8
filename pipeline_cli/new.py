"""`pipeline plugin new`: a directory with a plugin that runs, its test, and all that it takes to deploy and register it."""

from __future__ import annotations

import copy
import getpass
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click

from pipeline_cli.checking import packets
from pipeline_cli.exits import BadFile
from pipeline_core.plugins.types import PluginType

PACKAGE = Path(__file__).parent
SKELETONS = PACKAGE / "skeletons"
KIT = PACKAGE.with_name("pipeline_plugin")
"""Installed beside this package."""
SCRIPT = {"kind": "Script", "image": "busybox", "run": "echo hello from $TASKROLE_NAME"}
"""The job that the translators of the skeletons translate."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,48}[a-z0-9])?")
_LABEL = "example.com/prepared-by"

Document = dict[str, Any]


class Language(StrEnum):
    """What a plugin may be written in from a skeleton."""

    PYTHON = "python"
    NODE = "node"
    GO = "go"
    SHELL = "shell"


@dataclass(frozen=True)
class Commands:
    """The file with the plugin's code, and the commands of its README."""

    code: str
    test: str
    start: str


COMMANDS = {
    Language.PYTHON: Commands(
        "plugin.py", "python3 -m unittest", "python3 -m pipeline_plugin plugin:plugin --port @PORT@"
    ),
    Language.NODE: Commands("plugin.js", "node --test", "node server.js @PORT@"),
    Language.GO: Commands("plugin.go", "go test ./...", "go run . @PORT@"),
    Language.SHELL: Commands("answer.sh", "./test.sh", "./server.sh @PORT@"),
}
PYTHON_ANSWERS = {
    PluginType.FACTOR_GENERATOR: "[factor.document() for factor in answer]",
    PluginType.ACCESS_GATE: "answer.document()",
    PluginType.LIFE_HOOK: "answer.word",
}
"""The JSON of what `test` of the kit gives, where that is no JSON itself."""


@click.command()
@click.argument("name", metavar="NAME")
@click.option(
    "--type", "kind", type=click.Choice([*map(str, PluginType)]), required=True, help="The type of the plugin."
)
@click.option(
    "--lang",
    type=click.Choice([*map(str, Language)]),
    default=str(Language.PYTHON),
    show_default=True,
    help="What it is written in.",
)
@click.option("--author", default=getpass.getuser, show_default="who runs this", help="The feature's author.")
@click.option("--port", type=click.IntRange(1, 65535), default=9000, show_default=True, help="Where it listens.")
def new(name: str, kind: str, lang: str, author: str, port: int) -> None:
    """Write a new plugin into the directory NAME.

    It runs as it is: code, a test with a recorded packet, Dockerfile, manifest, feature.json, README.
    """
    if not _NAME.fullmatch(name):
        raise click.UsageError(
            "NAME has lower-case letters, digits and `-`, begins with a letter, ends with no `-`, and has at most 50"
        )
    directory, language = Path(name), Language(lang)
    written = dict(contents(name, PluginType(kind), language, author, port))
    try:
        directory.mkdir()
        for path, text in written.items():
            target = directory / path
            target.parent.mkdir(exist_ok=True)
            target.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                target.chmod(0o755)
    except FileExistsError:
        raise BadFile(f"{directory} is there already; give another NAME, or remove it") from None
    except OSError as error:
        raise BadFile(f"{directory}: {error.strerror}") from error
    commands = COMMANDS[language]
    click.echo(f"{name}/ is written. Your code is in {name}/{commands.code}; next:")
    for command in (f"cd {name}", commands.test, _filled(commands.start, {"PORT": str(port)})):
        click.echo(f"  {command}")


def contents(
    name: str, plugin_type: PluginType, language: Language, author: str, port: int
) -> Iterator[tuple[str, str]]:
    """The files of a new plugin: their paths, and what they hold."""
    commands, packet = COMMANDS[language], recorded(plugin_type)
    translates = plugin_type is PluginType.TEMPLATE_TRANSLATOR
    values = {
        "NAME": name,
        "TYPE": plugin_type,
        "A_TYPE": plugin_type.with_article,
        "PORT": str(port),
        "CODE": commands.code,
        "TEST": commands.test,
        "START": _filled(commands.start, {"PORT": str(port)}),
        "PACKET": " --packet packet.json" if translates else "",
        "ANSWER": PYTHON_ANSWERS.get(plugin_type, "answer"),
    }
    skeleton = SKELETONS / language
    for folder in (SKELETONS / "common", skeleton / "files"):
        for file in _files(folder):
            yield file.name.removesuffix(".template"), _filled(file.read_text(encoding="utf-8"), values)
    yield commands.code, _filled((skeleton / "types" / plugin_type).read_text(encoding="utf-8"), values)
    yield "packet.json", _json(packet)
    yield "answer.json", _json(ANSWERS[plugin_type](packet, name))
    yield "feature.json", _json(feature(name, plugin_type, author, port))
    if language is Language.PYTHON:
        # The kit itself: so the plugin needs no package index, and stays as it was tested.
        for file in _files(KIT):
            if file.name.endswith((".py", ".typed")):
                yield f"pipeline_plugin/{file.name}", file.read_text(encoding="utf-8")


def feature(name: str, plugin_type: PluginType, author: str, port: int) -> Document:
    """The feature that registers the plugin. A translator is for its own kind of job, all others for all jobs."""
    plugin = {"pluginType": str(plugin_type), "callAddress": f"http://127.0.0.1:{port}/"}
    document: Document = {"name": name, "author": author, "plugins": [plugin]}
    if plugin_type is PluginType.TEMPLATE_TRANSLATOR:
        condition = {"name": "script", "key": "jobKind", "expect": "Script"}
        document["jobSelector"] = {"conditions": [condition], "expression": "script"}
    return document


def recorded(plugin_type: PluginType) -> Document:
    """What the plugin of the skeleton is sent in its test."""
    packet = packets.built_in(plugin_type)
    if plugin_type is PluginType.TEMPLATE_TRANSLATOR:
        packet["header"]["jobKind"] = "Script"
        packet["job"] = SCRIPT
    return packet


def _translated(packet: Document, name: str) -> Any:
    container = {"name": "main", "image": SCRIPT["image"], "command": ["sh", "-c", SCRIPT["run"]]}
    roles = [{"name": "main", "template": {"spec": {"containers": [container]}}}]
    return {"apiVersion": "octopus.openi.pcl.cn/v1alpha1", "kind": "TaskSet", "spec": {"roles": roles}}


def _advised(packet: Document, name: str) -> Any:
    return [{"topic": "priority", "advice": 7, "reason": "3 replicas"}]


def _passed(packet: Document, name: str) -> Any:
    return {"decision": "pass", "reason": "3 of at most 8 replicas"}


def _decorated(packet: Document, name: str) -> Any:
    job = copy.deepcopy(packet["job"])
    for role in job["spec"]["roles"]:
        role["template"].setdefault("metadata", {}).setdefault("labels", {})[_LABEL] = name
    return job


def _bound(packet: Document, name: str) -> Any:
    job = copy.deepcopy(packet["job"])
    for role in job["spec"]["roles"]:
        role["template"]["spec"]["schedulerName"] = "default-scheduler"
    return job


def _received(packet: Document, name: str) -> Any:
    return "OK"


ANSWERS: Mapping[PluginType, Callable[[Document, str], Any]] = {
    PluginType.TEMPLATE_TRANSLATOR: _translated,
    PluginType.FACTOR_GENERATOR: _advised,
    PluginType.ACCESS_GATE: _passed,
    PluginType.TEMPLATE_DECORATOR: _decorated,
    PluginType.SCHEDULER_BINDER: _bound,
    PluginType.LIFE_HOOK: _received,
}
"""What the plugins of the skeletons answer to `recorded`, whatever they are written in."""


def _files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.is_file())


def _filled(text: str, values: Mapping[str, str]) -> str:
    return re.sub(r"@([A-Z_]+)@", lambda match: values[match[1]], text)


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
