"""Fields and schemas of request bodies: each body is declared once, and its schema documents it, checks it and parses it.

A required field lacks (LACK_OF_PARAM) when it is not there, null, or an empty text, list or object; an optional field that
is null counts as left out. `read` raises everything that is wrong at once, by path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields, missing, validate, validates_schema

from pipeline_core.errors import MissingParameter, PipelineError, UnsupportedPluginType, WrongParameter
from pipeline_core.features.definition import parse_type
from pipeline_core.plugins.types import PluginType
from pipeline_core.selectors import Selector, parse_selector
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.fields import EMPTY, REQUIRED, Check, unknown_fields
from pipeline_core.validation.texts import UNSTORABLE, shown, storable, unstorable


class _Explanation(str):
    """What is wrong with a field, and the class of error that says so."""

    error: type[PipelineError] = WrongParameter


class _Below(str):
    """A path that goes on from where an error was raised."""


def invalid(text: str, error: type[PipelineError] = WrongParameter) -> ValidationError:
    """What a field raises; `error` is the class for the client."""
    explanation = _Explanation(text)
    explanation.error = error
    return ValidationError(explanation)


def invalid_below(errors: Mapping[str, Sequence[str]]) -> ValidationError:
    """What a field or a schema raises for errors of the core, whose paths go on from there."""
    return ValidationError({_Below(path): list(texts) for path, texts in errors.items()})


def refuse_unstorable(value: Any) -> None:
    """Raises for all texts in a value of any form that cannot be stored."""
    if errors := {path: [UNSTORABLE] for path in unstorable(value)}:
        raise invalid_below(errors)


class BodySchema(Schema):
    """A JSON object; unknown fields are errors."""

    class Meta:
        unknown = "raise"

    echoed: frozenset[str] = frozenset()
    """Fields of answers that requests may send back and that are ignored, besides those that all bodies ignore."""
    alternatives: frozenset[str] = frozenset()
    """The fields that tell the schemas of an `Either` apart; errors about unknown fields list them, too."""

    def read(self, raw: Any) -> Any:
        """The value of `raw`, parsed JSON of any type.

        Raises MissingParameter, WrongParameter or UnsupportedPluginType, by the first error, with all validation errors in
        `errors`.
        """
        found, errors = self.examine(raw)
        errors.raise_any()
        return found

    def examine(self, raw: Any) -> tuple[Any, ValidationErrors]:
        """The value, and the validation errors; if there are any, the value is a mapping of the valid fields.

        Raises WrongParameter unless it is a JSON object.
        """
        if not isinstance(raw, dict):
            raise WrongParameter(f"The body must be a JSON object, not {shown(raw)}.")
        errors = ValidationErrors()
        try:
            return self.load(raw, unknown=EXCLUDE), errors
        except ValidationError as error:
            _collect(error.messages, "", errors)
            return error.valid_data or {}, errors

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def _refuse_unknown(self, data: Any, original: Mapping[str, Any], **_: Any) -> None:
        known = {field.data_key or name for name, field in self.load_fields.items()} | self.echoed
        if unknown := unknown_fields(original, known | self.alternatives):
            raise ValidationError({name: [text] for name, text in unknown.items()})


class BodyField(fields.Field[Any]):
    """A field of a body. `default` is its value when it is left out; `lacking` is the error of a required field that is
    left out."""

    absent: Any = None

    def __init__(
        self,
        *positional: Any,
        default: Any = missing,
        lacking: str = REQUIRED,
        metadata: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.lacking = lacking
        if default is not missing:
            self.absent, metadata = default, {"default": default, **(metadata or {})}
        options.setdefault("allow_none", not options.get("required"))
        super().__init__(*positional, metadata=metadata, **options)

    def deserialize(
        self, value: Any, attr: str | None = None, data: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        if value is missing or value is None or (self.required and value in EMPTY):
            if self.required:
                raise invalid(self.lacking, MissingParameter)
            return self.absent
        return self.checked(value, attr, data)

    def checked(self, value: Any, attr: str | None = None, data: Mapping[str, Any] | None = None) -> Any:
        """The deserialized value of a field that is not left out. Raises ValidationError."""
        read = self._deserialize(value, attr, data)
        self._validate(read)
        for process in self.post_load:
            read = process(read)
        return read


class Text(BodyField, fields.String):
    """A text. Its validators are called in order unless it is empty; the value of a `secret` text is in no message."""

    absent: Any = ""

    def __init__(self, *, secret: bool = False, check: Check | None = None, **options: Any) -> None:
        self.secret = secret
        self.check = check
        super().__init__(**options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not isinstance(value, str):
            raise invalid("must be a text" + ("" if self.secret else f", not {shown(value)}"))
        if not storable(value):
            raise invalid(UNSTORABLE)
        return value

    def _validate(self, value: str) -> None:
        if not value:
            return
        given = "" if self.secret else f"; given {shown(value)}"
        for validator in self.validators:
            try:
                validator(value)
            except ValidationError as error:
                raise invalid(f"{error.messages[0]}{given}") from None
        if self.check and (text := self.check(value)):
            raise invalid(f"{text}{given}")


class ChoiceField(Text):
    """One of the names of `choices`; deserialized to the value of that name."""

    def __init__(self, choices: Mapping[str, Any] | type[StrEnum], **options: Any) -> None:
        members = choices if isinstance(choices, Mapping) else {member.value: member for member in choices}
        self.choices: Mapping[str, Any] = members
        super().__init__(validate=validate.OneOf(list(members)), **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = super()._deserialize(value, attr, data, **options)
        if text not in self.choices:
            names = dict.fromkeys(str(member) for member in self.choices.values())
            raise invalid(f"must be one of {', '.join(names)}, not {shown(text)}")
        return self.choices[text]

    def _validate(self, value: Any) -> None:
        """Nothing to do: `_deserialize` has checked it."""


class TypeName(ChoiceField):
    """The name of a plugin type."""

    def __init__(self, **options: Any) -> None:
        super().__init__(PluginType, **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        text = Text._deserialize(self, value, attr, data, **options)
        try:
            return parse_type(text)
        except UnsupportedPluginType as error:
            raise invalid(error.message, UnsupportedPluginType) from None


class Boolean(BodyField, fields.Boolean):
    """`true` or `false`."""

    absent = False

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not isinstance(value, bool):
            raise invalid(f"must be true or false, not {shown(value)}")
        return value


class Number(BodyField, fields.Integer):
    """A whole number within bounds, which may also be spelled 5.0."""

    def __init__(self, least: int, most: int, **options: Any) -> None:
        self.least, self.most = least, most
        super().__init__(strict=True, validate=validate.Range(least, most), **options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        number = int(value) if isinstance(value, float) and value.is_integer() else value
        if isinstance(number, bool) or not isinstance(number, int) or not self.least <= number <= self.most:
            raise invalid(f"must be a whole number from {self.least} to {self.most}, not {shown(value)}")
        return number


class Items(BodyField, fields.List[Any]):
    """A list; each of its elements is checked by the inner field."""

    inner: BodyField

    def __init__(self, inner: BodyField, **options: Any) -> None:
        super().__init__(inner, **options)
        # null counts as left out for fields, but is an error for elements of a list.
        self.inner.allow_none = False

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not isinstance(value, list):
            raise invalid(f"must be a list, not {shown(value)}")
        read: list[Any] = []
        errors: dict[int, Any] = {}
        for index, item in enumerate(value):
            try:
                read.append(self.inner.checked(item))
            except ValidationError as error:
                errors[index] = error.messages
        if errors:
            raise ValidationError(errors, valid_data=read)
        return read


class Object(BodyField, fields.Dict):
    """An object of any form, unchanged."""

    def __init__(self, what: str = "an object", **options: Any) -> None:
        self.what = what
        super().__init__(**options)

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **options: Any) -> Any:
        if not isinstance(value, dict):
            raise invalid(f"must be {self.what}, not {shown(value)}")
        refuse_unstorable(value)
        return value


class Nested(BodyField, fields.Nested):
    """An object of the form of a schema."""

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, partial: Any = None, **options: Any
    ) -> Any:
        if not isinstance(value, dict):
            raise invalid(f"must be an object, not {shown(value)}")
        return self.schema.load(value, unknown=EXCLUDE)


class SelectorField(BodyField, fields.Nested):
    """A selector, documented by a schema and parsed by the selector grammar: the pair of the JSON and the selector."""

    absent = (None, None)

    def __init__(self, nested: type[Schema], *, with_states: bool = False, **options: Any) -> None:
        self.with_states = with_states
        super().__init__(nested, **options)

    def _deserialize(
        self, value: Any, attr: str | None, data: Mapping[str, Any] | None, partial: Any = None, **options: Any
    ) -> Any:
        selector: Selector | None
        refuse_unstorable(value)
        try:
            selector = parse_selector(value, "", with_states=self.with_states)
        except WrongParameter as error:
            raise invalid_below(error.errors) from None
        return value, selector


class Either:
    """A body with one of several schemas, chosen by which field is present: `{"token": …}` or `{"id": …}`."""

    def __init__(self, **forms: type[BodySchema]) -> None:
        self.forms = forms

    @property
    def documented(self) -> Mapping[str, Any]:
        """The forms as JSON Schema."""
        return {"oneOf": list(self.forms.values())}

    def examine(self, raw: Any) -> tuple[Any, ValidationErrors]:
        """As `BodySchema.examine`, by the schema whose field is present."""
        sent = raw if isinstance(raw, dict) else {}
        given = [name for name in self.forms if sent.get(name) not in (None, "")]
        chosen = next((name for name in given if sent[name] not in EMPTY), (given or list(self.forms))[0])
        own = {name: value for name, value in sent.items() if name == chosen or name not in self.forms}
        form = self.forms[chosen]()
        form.alternatives = frozenset(self.forms)
        found, errors = form.examine(own if isinstance(raw, dict) else raw)
        for name in given:
            if name != chosen:
                errors.add(name, f"must not stand beside {chosen}: only one of them says which is meant")
        return found, errors


def at_most(longest: int) -> validate.Length:
    """Validator of a text's length, whose error has the limit and the length."""
    return _AtMost(max=longest)


class _AtMost(validate.Length):
    def __call__(self, value: Any) -> Any:
        if self.max is not None and len(value) > self.max:
            raise ValidationError(f"must have at most {self.max} characters, not {len(value)}")
        return value


def between(least: int, most: int) -> validate.Length:
    """Validator of a text's length, from `least` to `most` characters."""
    return validate.Length(least, most, error=f"must be {least} to {most} characters")


def matching(regex: re.Pattern[str], error: str) -> validate.Regexp:
    """A text that the regular expression matches as a whole; `error` is what is wrong with any other."""
    return _Matches(re.compile(f"^{regex.pattern}$"), error=error)


class _Matches(validate.Regexp):
    def __call__(self, value: Any) -> Any:
        if not self.regex.fullmatch(value):
            raise ValidationError(self.error)
        return value


def _collect(found: Any, path: str, errors: ValidationErrors) -> None:
    """Add marshmallow's nested messages to `errors`, by path."""
    if not isinstance(found, Mapping):
        errors.adopt_texts(path, ((str(text), getattr(text, "error", WrongParameter)) for text in found))
        return
    for name, inner in found.items():
        if isinstance(name, _Below):
            below = f"{path}{'' if name.startswith('[') or not name or not path else '.'}{name}"
        else:
            below = path if name == "_schema" else join_path(path, name)
        _collect(inner, below, errors)
