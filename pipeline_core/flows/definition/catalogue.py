"""The catalogue: the templates that flows may use, imported or built in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from pipeline_core.flows.definition.templates import CUSTOMIZE, Template, canonical_name, read_templates
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.site import Site
from pipeline_core.validation.texts import shown

_OPTIONAL = {"type": "str", "require": 0, "default": ""}
_TEXT = {"type": "text", "require": 1}


def _document(name: str, describe: str, arguments: Mapping[str, Any], image: str = "") -> dict[str, Any]:
    return {
        "job_template_name": name,
        "job_template_describe": describe,
        "image_name": image,
        "job_template_args": {"task": dict(arguments)},
    }


_DISTRIBUTED = {
    "--image": _OPTIONAL,
    "--working_dir": _OPTIONAL,
    "--command": _TEXT,
    "--num_worker": {"type": "int", "default": 1, "range": "1,10001"},
}

BUILT_IN: Mapping[str, Any] = {
    CUSTOMIZE: _document(
        CUSTOMIZE, "Runs a script in any image.", {"images": {"type": "str"}, "workdir": _OPTIONAL, "command": _TEXT}
    ),
    "logical": _document("logical", "Runs nothing: joins what comes before.", {}),
    "python": _document(
        "python", "Runs Python code.", {"images": _OPTIONAL, "workdir": _OPTIONAL, "code": _TEXT}, "python:3"
    ),
    "pytorchjob": _document("pytorchjob", "Trains with PyTorch on several replicas.", _DISTRIBUTED),
    "tfjob": _document("tfjob", "Trains with TensorFlow on several replicas.", _DISTRIBUTED),
    "mpijob": _document("mpijob", "Runs an MPI program on several replicas.", _DISTRIBUTED),
}
"""The documents of the built-in templates."""


@cache
def _built_in() -> Mapping[str, Template]:
    return read_templates(BUILT_IN, Site())


class Catalogue:
    """The given templates, by name, and the built-in ones."""

    def __init__(self, templates: Iterable[Template] = ()) -> None:
        self._templates = {**_built_in(), **{canonical_name(template.name): template for template in templates}}

    def find(self, name: str) -> Template:
        """The template of that name. Raises NotationError."""
        try:
            return self._templates[canonical_name(name)]
        except KeyError:
            raise NotationError(
                f"names the template {shown(name)}, which there is not; there are {', '.join(self.names)}"
            ) from None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._templates))
