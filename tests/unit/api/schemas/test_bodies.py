"""What all schemas of bodies have in common: when a field lacks, how errors are told, and what is documented."""

from __future__ import annotations

from typing import Any

import pytest
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin

from api.schemas.bodies import BodySchema, Boolean, Choice, Either, Items, Nested, Number, Object, Text, at_most
from pipeline_core.errors import MissingParameter, PipelineError, WrongParameter


class Part(BodySchema):
    colour = Text(required=True)
    size = Number(1, 10, default=3)


class Whole(BodySchema):
    echoed = frozenset({"owner"})

    name = Text(required=True, validate=at_most(5))
    secret = Text(secret=True, check=lambda text: None if text == "open" else "must be open")
    kind = Choice({"a": 1, "b": 2})
    on = Boolean()
    parts = Items(Nested(Part))
    words = Items(Choice({"x": "X"}))
    anything = Object()


class ByName(BodySchema):
    name = Text(required=True, lacking="is required, or id in its place")


class ByID(BodySchema):
    id = Text(required=True)


def refusal(raw: Any, schema: BodySchema | None = None) -> PipelineError:
    with pytest.raises(PipelineError) as caught:
        (schema or Whole()).read(raw)
    return caught.value


@pytest.mark.parametrize("raw", [None, [], "text", 5, True, [{}]])
def test_a_body_that_is_no_object_is_wrong(raw: Any) -> None:
    error = refusal(raw)
    assert isinstance(error, WrongParameter)
    assert "must be a JSON object" in error.message


@pytest.mark.parametrize("raw", [{}, {"name": None}, {"name": ""}, {"name": []}, {"name": {}}])
def test_a_required_field_lacks_when_it_is_not_there_null_or_empty(raw: dict[str, Any]) -> None:
    error = refusal(raw)
    assert isinstance(error, MissingParameter)
    assert error.errors == {"name": ["is required and may not be empty"]}


def test_optional_fields_that_are_null_count_as_left_out() -> None:
    nulls = dict.fromkeys(("secret", "kind", "on", "parts", "words", "anything"))
    expected = {"name": "n", "secret": "", "kind": "", "on": False, "parts": None, "words": None, "anything": None}
    assert Whole().read({"name": "n", **nulls}) == Whole().read({"name": "n"}) == expected


def test_everything_that_is_wrong_is_told_at_once_by_its_path() -> None:
    error = refusal(
        {
            "name": "longer",
            "surprise": 1,
            "secret": "tell-no-one",
            "kind": "c",
            "on": "true",
            "parts": [{"colour": "red", "size": 11, "odd": 1}, None, {}],
            "words": ["x", None, "y"],
            "anything": [],
            "owner": "ignored",
            "sequence": 7,
        }
    )
    assert isinstance(error, WrongParameter)
    assert error.message == 'name: must have at most 5 characters, not 6; given "longer" (and 11 more)'
    assert error.errors == {
        "name": ['must have at most 5 characters, not 6; given "longer"'],
        "secret": ["must be open"],
        "kind": ['must be one of 1, 2, not "c"'],
        "on": ['must be true or false, not "true"'],
        "parts[0].size": ["must be a whole number from 1 to 10, not 11"],
        "parts[0].odd": ["is no field here; there are colour, size"],
        "parts[1]": ["must be an object, not null"],
        "parts[2].colour": ["is required and may not be empty"],
        "words[1]": ["must be a text, not null"],
        "words[2]": ['must be one of X, not "y"'],
        "anything": ["must be an object, not a list"],
        "surprise": ["is no field here; there are anything, kind, name, on, owner, parts, secret, words"],
    }


@pytest.mark.parametrize("value", ["a\x00", "\ud800"])
def test_a_text_that_cannot_be_stored_is_wrong(value: str) -> None:
    assert refusal({"name": value}).errors == {"name": ["must not contain NUL characters or lone surrogates"]}


@pytest.mark.parametrize(("value", "read"), [(5, 5), (5.0, 5), (10, 10)])
def test_a_whole_number_may_be_written_with_a_point(value: Any, read: int) -> None:
    size = Part().read({"colour": "red", "size": value})["size"]
    assert (size, type(size)) == (read, int)


@pytest.mark.parametrize("value", [0, 11, -1, True, "5", 5.5, [5]])
def test_a_number_outside_its_range_or_of_another_type_is_wrong(value: Any) -> None:
    assert list(refusal({"colour": "red", "size": value}, Part()).errors) == ["size"]


def test_a_body_of_one_of_two_forms_is_told_apart_by_its_field() -> None:
    either = Either(name=ByName, id=ByID)
    assert either.examine({"id": "i", "name": None})[0] == {"id": "i"}
    assert either.examine({})[1].by_path == {"name": ["is required, or id in its place"]}
    assert list(either.examine({"name": "n", "id": "i", "odd": 1})[1].by_path) == ["odd", "id"]


def test_what_is_read_is_what_is_documented() -> None:
    spec = APISpec("t", "1", "3.1.0", plugins=[MarshmallowPlugin()])
    spec.components.schema("Whole", schema=Whole)
    whole = spec.to_dict()["components"]["schemas"]["Whole"]
    assert (whole["required"], whole["additionalProperties"]) == (["name"], False)
    assert whole["properties"]["name"] == {"type": "string", "maxLength": 5}
    assert whole["properties"]["on"] == {"type": ["boolean", "null"]}
    assert whole["properties"]["words"]["items"] == {"type": "string", "enum": ["x"]}
    assert whole["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/Part"}
    size = spec.to_dict()["components"]["schemas"]["Part"]["properties"]["size"]
    assert size == {"type": ["integer", "null"], "minimum": 1, "maximum": 10, "default": 3}
