"""Which of the API's schemas the console's modules name. `openapi.d.ts` has their types; scripts/console-types writes it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from api.console.assets import FOLDER

TARGET = Path(__file__).parent / "openapi.d.ts"
HEAD = "// scripts/console-types wrote this from schemas with the SHA-256 "

# As in `import("…/openapi").components["schemas"]["JobSummary"]`.
_NAMED = re.compile(r"""\["schemas"\]\["(\w+)"\]""")
_REFERENCE = "#/components/schemas/"


def document(whole: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an OpenAPI document that has the schemas which the modules name, and those that these refer to."""
    schemas = whole["components"]["schemas"]
    texts = (path.read_text() for path in sorted(FOLDER.rglob("*.js")))
    wanted = sorted({name for text in texts for name in _NAMED.findall(text)})
    for name in wanted:
        wanted += [other for other in _referred(schemas[name]) if other not in wanted]
    return {
        "openapi": whole["openapi"],
        "info": {"title": "Pipeline", "version": "v1"},
        "paths": {},
        "components": {"schemas": {name: schemas[name] for name in sorted(wanted)}},
    }


def hash_of(schemas: Mapping[str, Any]) -> str:
    """The SHA-256 of what `document` returned."""
    return hashlib.sha256(json.dumps(schemas, sort_keys=True).encode()).hexdigest()


def _referred(schema: Any) -> Iterable[str]:
    if isinstance(schema, Mapping):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.removeprefix(_REFERENCE)
        for value in schema.values():
            yield from _referred(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _referred(value)
