"""Reads YAML and JSON files into values that JSON can represent."""

from __future__ import annotations

import contextlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from pipeline_cli.exits import BadFile
from pipeline_core.common.strict_json import MAX_DEPTH

# The service accepts bodies of up to 4 MiB.
MOST_CHARACTERS = 4 * 1024 * 1024


BOOLEANS = {"true": True, "false": False}
INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
DECIMAL = re.compile(
    r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)


class Loader(yaml.SafeLoader):
    """YAML whose plain scalars mean what they would in JSON, and whose keys are unique.

    `true`, `false`, `null`, `~`, nothing, and decimal numbers as JSON writes them (a sign, and a point at either end, are
    allowed) are what they look like; everything else is text: `no`, `12:30`, `01234`, `0x1F`, `1_000`, `2026-01-01`. That is
    the core schema of YAML 1.2 (https://yaml.org/spec/1.2.2/#103-core-schema) without octal and hexadecimal numbers. Its
    infinities and NaN are read, to be refused. PyYAML's own resolvers are those of YAML 1.1.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}

    def construct_document(self, node: yaml.Node) -> Any:
        require_bounded(node)
        return super().construct_document(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise refusal(f'the key "{key_node.value}" is no text; write it in quotes', key_node)
            if key in seen:
                raise refusal(f'the key "{key}" stands here twice', key_node)
            seen.add(key)
        return super().construct_mapping(node, deep)


def require_bounded(document: yaml.Node) -> None:
    """Raises yaml.constructor.ConstructorError when a document contains itself, or is too large once aliases are expanded.
    Takes time proportional to the size of the file, not of the expansion."""
    sizes: dict[int, int | None] = {}

    def size(node: yaml.Node) -> int:
        if id(node) not in sizes:
            sizes[id(node)] = None
            sizes[id(node)] = 1 + (
                sum(map(size, parts(node))) if isinstance(node, yaml.CollectionNode) else len(node.value)
            )
        known = sizes[id(node)]
        if known is None:
            raise refusal("what this anchor names holds itself", node)
        return known

    if size(document) > MOST_CHARACTERS:
        raise refusal(
            f"written out, this is more than {MOST_CHARACTERS} characters; the service takes no more", document
        )


def parts(node: yaml.CollectionNode) -> Iterable[yaml.Node]:
    return chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value


def refusal(text: str, node: yaml.Node) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, text, node.start_mark)


def resolve(tag: str, pattern: str, first: Iterable[str]) -> None:
    """Give this tag to plain scalars that match the whole `pattern` and begin with one of `first`."""
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$", re.ASCII), list(first))


def as_text(loader: Loader, node: Any) -> Any:
    return loader.construct_yaml_str(node)


def as_boolean(loader: Loader, node: Any) -> Any:
    text = loader.construct_scalar(node)
    if text.lower() not in BOOLEANS:
        raise refusal(f'"{text}" is neither true nor false', node)
    return BOOLEANS[text.lower()]


def as_integer(loader: Loader, node: Any) -> Any:
    return number(loader, node, INTEGER, int)


def as_decimal(loader: Loader, node: Any) -> Any:
    return number(loader, node, DECIMAL, lambda text: float(text.lower().replace(".inf", "inf").replace(".nan", "nan")))


def number(loader: Loader, node: Any, pattern: re.Pattern[str], read: Callable[[str], Any]) -> Any:
    """The number that a scalar spells, also with an explicit tag such as `!!int`. Raises ConstructorError otherwise."""
    text = loader.construct_scalar(node)
    if not pattern.fullmatch(text):
        raise refusal(f'"{text}" is no decimal number', node)
    try:
        return read(text)
    except ValueError as error:
        # Python reads no number of more than some thousand digits.
        raise refusal(f"this number cannot be read: {error}", node) from error


def as_mapping(loader: Loader, node: Any) -> Any:
    return loader.construct_yaml_map(node)


resolve("bool", "true|True|TRUE|false|False|FALSE", "tTfF")
resolve("null", "null|Null|NULL|~|", ["", *"nN~"])
resolve("int", INTEGER.pattern, "-+0123456789")
resolve("float", DECIMAL.pattern, "-+.0123456789")
resolve("merge", "<<", "<")
Loader.add_constructor("tag:yaml.org,2002:bool", as_boolean)
Loader.add_constructor("tag:yaml.org,2002:int", as_integer)
Loader.add_constructor("tag:yaml.org,2002:float", as_decimal)
Loader.add_constructor("tag:yaml.org,2002:timestamp", as_text)
Loader.add_constructor("tag:yaml.org,2002:binary", as_text)
Loader.add_constructor("tag:yaml.org,2002:merge", as_text)
# A set becomes the mapping that it is written as.
Loader.add_constructor("tag:yaml.org,2002:set", as_mapping)


def documents(path: str) -> list[dict[str, Any]]:
    """The documents of the file at `path` (`-`: standard input): objects only, empty ones left out.

    Raises BadFile, which names file, line and column, or the path of the wrong value.
    """
    try:
        text = (sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()).decode("utf-8-sig")
        found = parse(text)
    except OSError as error:
        raise BadFile(f"{path}: {error.strerror}") from error
    except yaml.constructor.ConstructorError as error:
        raise BadFile(f"{path}: {error}") from error
    except RecursionError as error:
        raise BadFile(f"{path} is neither YAML nor JSON: it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadFile(f"{path} is neither YAML nor JSON: {error}") from error
    for document in found:
        if not isinstance(document, dict):
            raise BadFile(f"{path} holds {named(document)} where an object is expected")
        require_json(document, path)
    if not found:
        raise BadFile(f"{path} is empty")
    return found


def parse(text: str) -> list[Any]:
    """All documents in `text`. JSON is tried first, since YAML treats tabs and some escapes differently."""
    if text.lstrip().startswith(("{", "[")):
        with contextlib.suppress(json.JSONDecodeError):
            return [json.loads(text, object_pairs_hook=unique)]
    return [document for document in yaml.load_all(text, Loader) if document is not None]


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    counts = Counter(key for key, _ in pairs)
    if twice := [key for key, count in counts.items() if count > 1]:
        raise ValueError(f'the key "{twice[0]}" stands twice in one object')
    return dict(pairs)


def require_json(value: Any, path: str, levels: int = MAX_DEPTH) -> None:
    """Raises BadFile when JSON cannot represent `value`, which is at `path`, or it has more than `levels` levels."""
    if not levels and isinstance(value, dict | list):
        raise BadFile(f"{path[:200]}… is more than {MAX_DEPTH} levels deep; the service takes no more")
    if isinstance(value, float) and not math.isfinite(value):
        raise BadFile(f"{path}: {value} is no number in JSON; write it in quotes if it is meant as text")
    if isinstance(value, dict):
        for key, inner in value.items():
            require_json(inner, f"{path}.{key}", levels - 1)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            require_json(inner, f"{path}.{index}", levels - 1)
    elif not (value is None or isinstance(value, str | int | float)):
        raise BadFile(f"{path}: JSON has no {type(value).__name__}")


def named(value: Any) -> str:
    return "a list" if isinstance(value, list) else f'"{value}"'


def submit_body(
    document: Mapping[str, Any],
    *,
    user: str | None = None,
    name: str | None = None,
    namespace: str | None = None,
    header: Iterable[tuple[str, str]] = (),
) -> dict[str, Any]:
    """The body of a submission from a file's document.

    A document with `job` and no `kind` is a whole body; any other is a bare job. `user`, `name`, `namespace` and the pairs
    of `header` override the document; for a bare job, `name` defaults to `metadata.name`, and without a `user` there is no
    `userID`. Raises BadFile when a bare job has no kind or no name.
    """
    given = {"userID": user, "jobName": name, "jobNameSpace": namespace}
    given = {field: value for field, value in given.items() if value is not None}
    body = dict(document) if is_submit_body(document) else wrapped(document)
    body |= given
    if pairs := dict(header):
        body["header"] = {**(body.get("header") or {}), **pairs}
    if not is_submit_body(document):
        for field, (source, remedy) in BARE.items():
            if body[field] is not None and not isinstance(body[field], str):
                raise BadFile(f"{source} is {json.dumps(body[field])}, which is no text: write it in quotes")
            if not body[field]:
                raise BadFile(f"the file needs {remedy}: it is a bare job, and {field} is taken from there")
    return body


BARE = {"jobKind": ("kind", "a kind"), "jobName": ("metadata.name", "metadata.name, or give --name")}
"""Where a bare job has the fields of a submission, and what is to be done when they are missing."""


def is_submit_body(document: Mapping[str, Any]) -> bool:
    return "job" in document and "kind" not in document


def wrapped(job: Mapping[str, Any]) -> dict[str, Any]:
    metadata = job.get("metadata")
    return {
        "jobName": metadata.get("name") if isinstance(metadata, dict) else None,
        "jobKind": job.get("kind"),
        "header": {},
        "job": dict(job),
    }
