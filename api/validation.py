"""Checking query parameters against schemas, with errors that name the parameter and its value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marshmallow import Schema, ValidationError
from werkzeug.datastructures import MultiDict

from api.schemas.fields import Query
from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter
from pipeline_core.validation.texts import shown, storable


def query(schema: Schema | None, sent: MultiDict[str, str]) -> Mapping[str, Any]:
    """The query's parameters by the schema; without one, there may be none.

    Raises WrongParameter for unknown and repeated parameters and bad values, MissingParameter for missing ones.
    """
    for name, values in sent.lists():
        if len(values) > 1:
            raise WrongParameter(f"The query parameter {shown(name)} is given more than once.")
        if not storable(name + values[0]):
            raise WrongParameter(f"The query parameter {shown(name)} has a NUL character.")
    given = sent.to_dict()
    try:
        loaded: Mapping[str, Any] = (schema or _NOTHING).load(given)
    except ValidationError as error:
        raise _problem(error.normalized_messages(), given) from None
    return loaded


def _problem(errors: Mapping[str, list[str]], given: Mapping[str, str]) -> PipelineError:
    name, texts = next(iter(errors.items()))
    if name not in given:
        return MissingParameter(f"The query parameter {name} is missing.", errors=errors)
    return WrongParameter(f"The query parameter {name} is {shown(given[name])}: {' '.join(texts)}", errors=errors)


_NOTHING = Query()
