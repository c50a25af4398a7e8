"""What all schemas of bodies have in common: missing fields, the reporting of errors, and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from apispec import APISpec
from apispec.ext.marshmallow import MarshmallowPlugin
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import fields

from api.openapi import RequestBody
from api.resources import all_blueprints
from api.schemas.bodies import (
    BodySchema,
    Boolean,
    ChoiceField,
    Either,
    Items,
    Nested,
    Number,
    Object,
    Text,
    TypeName,
    at_most,
)
from pipeline_core.errors import MissingParameter, PipelineError, UnsupportedPluginType, WrongParameter
from pipeline_core.validation.fields import ECHOED
from pipeline_core.validation.texts import unstorable


class Part(BodySchema):
    colour = Text(required=True)
    size = Number(1, 10, default=3)


class Whole(BodySchema):
    echoed = frozenset({"owner"})

    name = Text(required=True, validate=at_most(5))
    secret = Text(secret=True, check=lambda text: None if text == "open" else "must be open")
    kind = ChoiceField({"a": 1, "b": 2})
    on = Boolean()
    parts = Items(Nested(Part))
    words = Items(ChoiceField({"x": "X"}))
    anything = Object()


class Named(BodySchema):
    names = Items(Text(), required=True)
    code = Text(secret=True, check=lambda text: "must be otherwise")
    kind = TypeName()


class ByName(BodySchema):
    name = Text(required=True, lacking="is required, or id in its place")


class ByID(BodySchema):
    id = Text(required=True)


def refusal(raw: Any, schema: BodySchema | None = None) -> PipelineError:
    with pytest.raises(PipelineError) as caught:
        (schema or Whole()).read(raw)
    return caught.value


@pytest.mark.parametrize("raw", [None, [], "text", 5, True, [{}]])
def test_a_body_that_is_no_object_is_refused(raw: Any) -> None:
    error = refusal(raw)
    assert isinstance(error, WrongParameter)
    assert "must be a JSON object" in error.message


@pytest.mark.parametrize("raw", [{}, {"name": None}, {"name": ""}, {"name": []}, {"name": {}}])
def test_a_required_field_that_is_absent_null_or_empty_is_missing(raw: dict[str, Any]) -> None:
    error = refusal(raw)
    assert isinstance(error, MissingParameter)
    assert error.errors == {"name": ["is required and may not be empty"]}


@pytest.mark.parametrize("value", [0, False, 1.5, ["a"], {"a": 1}])
def test_a_required_text_of_another_type_is_wrong(value: Any) -> None:
    error = refusal({"name": value})
    assert isinstance(error, WrongParameter)
    assert error.errors["name"][0].startswith("must be a text, not ")


@pytest.mark.parametrize("raw", [{}, {"names": None}, {"names": []}, {"names": ""}, {"names": {}}])
def test_a_required_list_lacks_when_it_is_not_there_null_or_empty(raw: dict[str, Any]) -> None:
    error = refusal(raw, Named())
    assert isinstance(error, MissingParameter)
    assert error.errors == {"names": ["is required and may not be empty"]}


@pytest.mark.parametrize("value", ["a", 1, True, {"a": 1}])
def test_a_required_list_of_another_type_is_wrong(value: Any) -> None:
    error = refusal({"names": value}, Named())
    assert isinstance(error, WrongParameter)
    assert error.errors["names"][0].startswith("must be a list, not ")


@pytest.mark.parametrize("value", ["true", 1, 0, []])
def test_a_flag_is_true_or_false_and_nothing_else(value: Any) -> None:
    assert refusal({"name": "n", "on": value}).errors["on"][0].startswith("must be true or false, not ")


@pytest.mark.parametrize("name", ["key", "sequence", "effectiveJobSelector", "createdAt", "updatedAt", "owner"])
def test_what_answers_show_may_be_sent_back(name: str) -> None:
    assert Whole().read({"name": "n", name: {"any": "thing"}}) == Whole().read({"name": "n"})


def test_what_is_found_first_decides_the_error() -> None:
    assert isinstance(refusal({"kind": "x"}, Named()), MissingParameter)
    assert isinstance(refusal({"names": [1], "kind": "x"}, Named()), WrongParameter)
    error = refusal({"names": ["a"], "code": "hidden", "kind": "x", "odd": 1}, Named())
    assert isinstance(error, WrongParameter)
    assert "(and 2 more)" in error.message
    assert isinstance(refusal({"names": ["a"], "kind": "x", "odd": 1}, Named()), UnsupportedPluginType)


@pytest.mark.parametrize("value", ["hidden", 4711])
def test_a_secret_is_in_no_message(value: Any) -> None:
    error = refusal({"names": ["a"], "code": value}, Named())
    assert list(error.errors) == ["code"]
    assert str(value) not in f"{error.errors}{error.message}"


def test_optional_fields_that_are_null_count_as_left_out() -> None:
    nulls = dict.fromkeys(("secret", "kind", "on", "parts", "words", "anything"))
    expected = {"name": "n", "secret": "", "kind": "", "on": False, "parts": None, "words": None, "anything": None}
    assert Whole().read({"name": "n", **nulls}) == Whole().read({"name": "n"}) == expected


def test_all_validation_errors_are_reported_by_path() -> None:
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


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ({"anything": {"b": ["", "\udfff"]}}, "anything.b[1]"),
        ({"anything": {"b": [{"c": "x\x00"}]}}, "anything.b[0].c"),
        ({"anything": {"\x00": 1}}, r'anything["\u0000"]'),
        ({"words": ["x", "\x00"]}, "words[1]"),
        ({"parts": [{"colour": "\ud800"}]}, "parts[0].colour"),
        ({"parts": [{"colour": "red", "\ud800": 1}]}, r'parts[0]["\ud800"]'),
        ({"\ud800": 1}, r'["\ud800"]'),
    ],
)
def test_a_text_that_cannot_be_stored_is_wrong_wherever_it_stands(raw: dict[str, Any], path: str) -> None:
    error = refusal({"name": "n", **raw})
    assert isinstance(error, WrongParameter)
    assert error.errors == {path: ["must not contain NUL characters or lone surrogates"]}
    error.message.encode()


@pytest.mark.parametrize(("value", "read"), [(5, 5), (5.0, 5), (10, 10)])
def test_a_whole_number_may_be_written_with_a_point(value: Any, read: int) -> None:
    size = Part().read({"colour": "red", "size": value})["size"]
    assert (size, type(size)) == (read, int)


@pytest.mark.parametrize("value", [0, 11, -1, True, "5", 5.5, 1e400, float("nan"), [5]])
def test_a_number_outside_its_range_or_of_another_type_is_wrong(value: Any) -> None:
    error = refusal({"colour": "red", "size": value}, Part())
    assert list(error.errors) == ["size"]
    assert error.errors["size"][0].startswith("must be a whole number from 1 to 10, not ")


def test_the_schema_of_an_either_is_chosen_by_its_field() -> None:
    either = Either(name=ByName, id=ByID)
    assert either.examine({"id": "i", "name": None})[0] == {"id": "i"}
    assert either.examine({})[1].by_path == {"name": ["is required, or id in its place"]}
    assert list(either.examine({"name": "n", "id": "i", "odd": 1})[1].by_path) == ["odd", "id"]
    assert either.examine({"id": "i", "odd": 1})[1].by_path == {"odd": ["is no field here; there are id, name"]}
    for value in (0, ["n"]):
        assert list(either.examine({"name": value, "id": "i"})[1].by_path) == ["name", "id"]
    for value in ([], {}):
        assert list(either.examine({"name": value, "id": "i"})[1].by_path) == ["name"]


def test_the_documented_schema_is_the_one_that_parses() -> None:
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


def declared_bodies() -> dict[str, RequestBody]:
    """The body of each operation that has one which a schema reads."""
    operations = [operation for blueprint in all_blueprints() for operation in blueprint.operations]
    bodies = [operation.body for operation in operations if operation.body]
    return {"|".join(name.__name__ for name in forms(body)): body for body in bodies if forms(body)}


def forms(body: RequestBody) -> list[type[BodySchema]]:
    """The schemas by which it may be read; none for import documents."""
    schema = body.schema
    if isinstance(schema, Either):
        return list(schema.forms.values())
    return [schema] if isinstance(schema, type) and issubclass(schema, BodySchema) else []


def all_fields(schema: Any) -> Iterator[tuple[str, fields.Field[Any]]]:
    """The fields of a schema, and of the schemas in it."""
    for name, field in schema._declared_fields.items():
        yield field.data_key or name, field
        inner = field.inner if isinstance(field, fields.List) else field
        if isinstance(inner, fields.Nested):
            yield from all_fields(inner.nested)


BODIES = declared_bodies()
FIELDS = dict(pair for body in BODIES.values() for form in forms(body) for pair in all_fields(form))
WORDS = sorted({word for field in FIELDS.values() if isinstance(field, ChoiceField) for word in field.choices})
TEXT = st.text("abc.*!(/\x00\n\ud800é😀", max_size=5)
NAME = st.sampled_from(sorted(FIELDS)) | TEXT
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAME, inner, max_size=3),
    max_leaves=12,
)


def test_the_declared_bodies_are_found() -> None:
    assert {"Submit", "FeatureBody", "TokenBody", "TokenByValue|TokenByID", "RunBody", "BackfillBody"} <= set(BODIES)
    assert {"callAddress", "conditions", "from", "privileges", "variables"} <= set(FIELDS)


@pytest.mark.parametrize("name", BODIES)
def test_the_example_of_each_body_is_read(name: str) -> None:
    assert error_of(BODIES[name], BODIES[name].example) is None


@pytest.mark.parametrize("name", BODIES)
@given(raw=JSON, changed=st.dictionaries(NAME, JSON, max_size=2), place=st.integers(0, 99))
def test_any_json_is_read_or_refused_with_paths(name: str, raw: Any, changed: Mapping[str, Any], place: int) -> None:
    body = BODIES[name]
    own = [field for form in forms(body) for field in form().load_fields.values()]
    field = own[place % len(own)]
    for sent in (raw, {**body.example, **changed}, {**body.example, field.data_key or field.name: raw}):
        if error := error_of(body, sent):
            assert all(error.errors.values())
            assert bool(error.errors) == isinstance(sent, dict)
            f"{error.message}{error.errors}".encode()
        else:
            assert list(unstorable({name: value for name, value in sent.items() if name not in ECHOED})) == []


def error_of(body: RequestBody, raw: Any) -> PipelineError | None:
    """What the schema says of it; who may do this would be asked of the database."""
    schema = body.schema if isinstance(body.schema, Either) else forms(body)[0]()
    try:
        schema.examine(raw)[1].raise_any()
    except PipelineError as error:
        return error
    return None
