"""Arguments of templates: their specifications, checking values against them, and the argv that values make."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NoReturn

import re2

from pipeline_core.flows.notation.errors import NotationError, collect_errors
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.fields import FieldReader
from pipeline_core.validation.texts import shown

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """One argument of a template. `range` is [least, bound), either end open when None; `regex` is searched for."""

    name: str
    type: str = "str"
    item_type: str = "str"
    require: bool = True
    choice: tuple[str, ...] = ()
    range: tuple[float | None, float | None] = (None, None)
    default: Any = None
    editable: bool = True
    regex: str = ""
    sub_args: Mapping[str, Argument] = field(default_factory=dict)


def read_arguments(groups: object, problems: ValidationErrors, path: str) -> dict[str, Argument]:
    """The arguments of `job_template_args`: groups, which mean nothing, of named specifications, in their order."""
    arguments: dict[str, Argument] = {}
    if not isinstance(groups, dict):
        problems.add(path, f"must be an object of groups of arguments, not {shown(groups)}")
        return {}
    for group, specs in groups.items():
        where = join_path(path, group)
        if not isinstance(specs, dict):
            problems.add(where, f"must be an object of arguments, not {shown(specs)}")
            continue
        for name, spec in specs.items():
            if name in arguments:
                problems.add(join_path(where, name), "is in two groups; an argument's name must be there once")
            arguments[name] = _argument(name, spec, problems, join_path(where, name))
    return arguments


def _argument(name: str, spec: object, problems: ValidationErrors, path: str) -> Argument:
    if not isinstance(spec, dict):
        problems.add(path, f"must be an object, not {shown(spec)}")
        return Argument(name=name)
    fields = FieldReader(spec, ValidationErrors(), path)
    fields.ignore("label", "describe", "placeholder")
    kind = fields.text("type", default="str", check=lambda text: _one_of(text, TYPES)) or "str"
    argument = Argument(
        name=name,
        type=kind,
        item_type=fields.text("item_type", default="str") or "str",
        require=_switch(fields, "require"),
        choice=_choice(fields),
        range=_range(fields),
        default=fields.value("default"),
        editable=_switch(fields, "editable"),
        regex=fields.text("regex", check=_regex_problem),
        sub_args={
            sub: _argument(sub, inner, fields.errors, join_path(path, "sub_args", sub))
            for sub, inner in _object(fields, "sub_args").items()
        },
    )
    try:
        if not fields.errors and not _has_variables(argument.default) and argument.default not in (None, ""):
            check_value(argument, argument.default)
    except NotationError as error:
        fields.add_error("default", str(error))
    collect_errors(fields.finish, problems)
    return argument


def _one_of(text: str, known: Mapping[str, Any]) -> str | None:
    return None if text in known else f"must be one of {', '.join(known)}"


def _switch(fields: FieldReader, name: str) -> bool:
    value = fields.value(name)
    if value not in (None, 0, 1):
        fields.add_error(name, f"must be 0 or 1, not {shown(value)}")
    return value is None or bool(value)


def _choice(fields: FieldReader) -> tuple[str, ...]:
    value = fields.value("choice")
    if value in (None, ""):
        return ()
    if not isinstance(value, list) or not all(map(_is_scalar, value)):
        fields.add_error("choice", f"must be a list of texts and numbers, not {shown(value)}")
        return ()
    return tuple(map(_word, value))


def _range(fields: FieldReader) -> tuple[float | None, float | None]:
    text = fields.text("range")
    if not text.strip():
        return None, None
    ends = [_number(part.strip()) if part.strip() else None for part in text.split(",")]
    if len(ends) != 2 or any(end is not None and not math.isfinite(end) for end in ends):
        fields.add_error("range", f'must be a least value and a bound, as "0,10", not {shown(text)}')
        return None, None
    return ends[0], ends[1]


def _regex_problem(text: str) -> str | None:
    try:
        re2.compile(text)
    except re2.error as error:
        return f"must be a regular expression of RE2 ({error})"
    return None


def _object(fields: FieldReader, name: str) -> dict[str, Any]:
    value = fields.value(name)
    if value in (None, ""):
        return {}
    if not isinstance(value, dict):
        fields.add_error(name, f"must be an object, not {shown(value)}")
        return {}
    return value


def _has_variables(value: Any) -> bool:
    return "{{" in json.dumps(value)


def fill_defaults(arguments: Mapping[str, Argument], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A value for each argument, in the template's order, the default where none is given; and errors by argument."""
    problems = {
        name: f"is no argument of the template; there are {', '.join(arguments) or 'none'}"
        for name in given
        if name not in arguments
    }
    values: dict[str, Any] = {}
    for name, argument in arguments.items():
        value = given.get(name)
        values[name] = argument.default if value is None else value
        if not argument.editable and value is not None and value != argument.default:
            problems[name] = f"may not be changed from the template's {shown(argument.default)}"
    return values, problems


def check_value(argument: Argument, value: Any) -> Any:
    """The value as it will be passed. Raises NotationError when it is not what the argument asks for."""
    if value is None or value == "":
        if argument.require:
            raise NotationError("is required and may not be empty")
        return None
    return TYPES[argument.type](argument, value)


def argv(values: Mapping[str, Any]) -> list[str]:
    """The words of checked values, in their order: names and values, for `true` the name alone, for nothing nothing."""
    words: list[str] = []
    for name, value in values.items():
        if value is None or value is False or value == "":
            continue
        words += [name] if value is True else [name, _passed(value)]
    return words


def _passed(value: Any) -> str:
    if isinstance(value, list) and all(map(_is_scalar, value)):
        return ",".join(map(_word, value))
    return _word(value) if _is_scalar(value) else json.dumps(value, ensure_ascii=False)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, str | int | float)


def _word(value: Any) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _text(argument: Argument, value: Any) -> Any:
    if not _is_scalar(value) or isinstance(value, bool):
        raise NotationError(f"must be a text, not {shown(value)}")
    return _limited(argument, value)


def _whole(argument: Argument, value: Any) -> Any:
    if isinstance(value, bool | float) or not _INTEGER.fullmatch(str(value)):
        raise NotationError(f"must be a whole number, not {shown(value)}")
    return _limited(argument, value)


def _real(argument: Argument, value: Any) -> Any:
    number = None if isinstance(value, bool) or not _is_scalar(value) else _number(str(value))
    if number is None or not math.isfinite(number):
        raise NotationError(f"must be a number, not {shown(value)}")
    return _limited(argument, value)


def _number(text: str) -> float:
    try:
        return float(text) if text.isascii() and "_" not in text else math.nan
    except ValueError:
        return math.nan


def _flag(argument: Argument, value: Any) -> Any:
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise NotationError(f"must be true or false, not {shown(value)}")
    return value


def _moment(*formats: str) -> Callable[[Argument, Any], Any]:
    def check(argument: Argument, value: Any) -> Any:
        for form in formats:
            try:
                datetime.strptime(str(value), form).replace(tzinfo=UTC)
            except ValueError:
                continue
            return _limited(argument, value)
        raise NotationError(f"must be of the form {formats[0]}, not {shown(value)}")

    return check


def _many(argument: Argument, value: Any) -> Any:
    if not isinstance(value, str | list):
        raise NotationError(f"must be a list, or a text of values separated by commas, not {shown(value)}")
    for item in [part.strip() for part in value.split(",")] if isinstance(value, str) else value:
        if isinstance(item, dict):
            _check_object(argument, item)
        elif _is_scalar(item):
            ITEMS.get(argument.item_type, _limited)(argument, item)
        elif argument.type == "multiple":
            raise NotationError(f"must be a list of texts and numbers; {shown(item)} is none")
    return value


def _document(argument: Argument, value: Any) -> Any:
    document = value
    if isinstance(value, str):
        try:
            document = json.loads(value, parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise NotationError(f"must be JSON, not {shown(value)}") from None
    if argument.type == "dict" and not isinstance(document, dict):
        raise NotationError(f"must be an object, not {shown(document)}")
    if isinstance(document, dict):
        _check_object(argument, document)
    return value


def _no_number(word: str) -> NoReturn:
    """Raises ValueError for `NaN` and infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{word} is no JSON")


def _check_object(argument: Argument, document: dict[str, Any]) -> None:
    """Check an object against the argument's `sub_args`, when there are any."""
    if not argument.sub_args:
        return
    values, problems = fill_defaults(argument.sub_args, document)
    for name, problem in [*problems.items(), *_invalid(argument.sub_args, values)]:
        raise NotationError(f"has {shown(name)}, which {problem}")


def _invalid(arguments: Mapping[str, Argument], values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, argument in arguments.items():
        try:
            check_value(argument, values[name])
        except NotationError as error:
            yield name, str(error)


def _limited(argument: Argument, value: Any) -> Any:
    """The scalar itself, if it keeps to `choice`, `range` and `regex`."""
    text = _word(value)
    if argument.choice and text not in argument.choice:
        raise NotationError(f"must be one of {', '.join(argument.choice)}, not {shown(value)}")
    least, bound = argument.range
    if least is not None or bound is not None:
        number = _number(text)
        if not (least is None or number >= least) or not (bound is None or number < bound):
            raise NotationError(f"must be in [{_end(least)}, {_end(bound)}), not {shown(value)}")
    if argument.regex and not re2.search(argument.regex, text):
        raise NotationError(f"must match {argument.regex}, not {shown(value)}")
    return value


def _end(number: float | None) -> str:
    return "…" if number is None else f"{number:g}"


TYPES: Mapping[str, Callable[[Argument, Any], Any]] = {
    "str": _text,
    "text": _text,
    "file": _text,
    "enum": _text,
    "int": _whole,
    "float": _real,
    "bool": _flag,
    "multiple": _many,
    "list": _many,
    "dict": _document,
    "json": _document,
    "date": _moment("%Y-%m-%d"),
    "datetime": _moment("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"),
}
"""The types that an argument may have, each with how a value of it is checked."""

ITEMS: Mapping[str, Callable[[Argument, Any], Any]] = {"int": _whole, "float": _real}
"""Types of items of lists that are more than texts."""
