"""A hook of MkDocs: puts the pages that stand outside docs/ into the site, and turns the links to and from them."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
AT_ROOT = ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "CHANGELOG.md", "LICENSE")
EXAMPLES = "examples"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages at the root and the examples, in the folders that they have in the repository."""
    examples = (path for path in sorted((ROOT / EXAMPLES).rglob("*")) if path.is_file() and path.suffix != ".pyc")
    for path in [*map(ROOT.joinpath, AT_ROOT), *examples]:
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turn links between docs/ and what stands beside it into links within the site, where docs/ is the root."""
    if page.file.src_uri in AT_ROOT:
        markdown = markdown.replace("](docs/", "](")
    else:
        up = page.file.src_uri.count("/")
        markdown = re.sub(rf"\]\({'../' * up}\.\./", f"]({'../' * up}", markdown)
    markdown = re.sub(r"\]\(((?:\.\./)*)docs/", r"](\1", markdown)
    return re.sub(r"\]\(((?:\.\./)*)README\.md", r"](\1index.md", markdown) if up_to_root(page) else markdown


def up_to_root(page: Page) -> bool:
    """Whether a link to README.md from here means the repository's own, which the site has as index.md."""
    return not page.file.src_uri.startswith(EXAMPLES)
