"""The console's files, as they are served: under a path that has the digest of all of them, so that a browser may keep them."""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "static"
ENTRY = "app/main.js"

TYPES: Mapping[str, str] = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".html": "text/html; charset=utf-8",
}
"""The media type by suffix; other files (types, licences) are not served."""

# `import … from "./x.js"` and `export … from`; those that are loaded when a page is opened are calls, `import("./x.js")`.
_IMPORT = re.compile(r"""(?:\bfrom|^\s*import)\s*["'](\.[^"']+)["']""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """A file: its bytes, and the same compressed with gzip."""

    media_type: str
    raw: bytes
    compressed: bytes


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by their path, the digest of them, and the modules that the first load needs, in the order of imports."""

    files: Mapping[str, Asset]
    digest: str
    first: tuple[str, ...]


@cache
def assets() -> Assets:
    """Those of this version; read once, before the server's processes are forked."""
    files = {
        path.relative_to(FOLDER).as_posix(): _asset(path)
        for path in sorted(FOLDER.rglob("*"))
        if path.suffix in TYPES and path.is_file()
    }
    digest = hashlib.sha256()
    for name, file in files.items():
        digest.update(f"{name}\0{len(file.raw)}\0".encode() + file.raw)
    return Assets(files, digest.hexdigest()[:20], _imported({name: file.raw.decode() for name, file in files.items()}))


def _asset(path: Path) -> Asset:
    raw = path.read_bytes()
    return Asset(TYPES[path.suffix], raw, gzip.compress(raw, mtime=0))


def _imported(texts: Mapping[str, str]) -> tuple[str, ...]:
    """The entry and what it imports, directly or not."""
    found = [ENTRY]
    for module in found:
        for path in _IMPORT.findall(texts[module]):
            name = posixpath.normpath(posixpath.join(posixpath.dirname(module), path))
            if name not in found:
                found.append(name)
    return tuple(found)
