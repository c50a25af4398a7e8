"""Selectors from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors.conditions import compile_expect
from pipeline_core.selectors.expression import NAME, ExpressionError, parse_expression
from pipeline_core.selectors.selector import ANY_STATE, MAX_CONDITIONS, Condition, Selector
from pipeline_core.states import ALIASES, parse_states
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import cut, kind

_CONDITION_FIELDS = ("name", "key", "expect")
_FIELDS = ("conditions", "expression", "states")


def parse_selector(raw: object, path: str, *, with_states: bool = False) -> Selector | None:
    """The selector in `raw`, parsed JSON from the field `path`; None for null.

    `conditions`, `expression` and `states` may be left out or null; `states` is allowed only `with_states` (on a LifeHook).
    Checks what this selector alone shows; `merge` checks a plugin's selector together with its feature's.

    Raises WrongParameter with every validation error in `errors`, by path.
    """
    if raw is None:
        return None
    errors = ValidationErrors()
    selector = _selector(raw, path, with_states, errors)
    errors.raise_any()
    return selector


def _selector(raw: object, path: str, with_states: bool, errors: ValidationErrors) -> Selector:
    if not _is_object(raw, path, _FIELDS, errors):
        return Selector()
    if not with_states and raw.get("states") is not None:
        errors.add(join_path(path, "states"), "only the selector of a LifeHook has states")
    return Selector(
        conditions=_conditions(raw.get("conditions"), join_path(path, "conditions"), errors),
        expression=_expression(raw.get("expression"), join_path(path, "expression"), errors),
        states=_states(raw.get("states"), join_path(path, "states"), errors) if with_states else None,
    )


def _conditions(raw: object, path: str, errors: ValidationErrors) -> tuple[Condition, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        errors.add(path, f"must be a list of conditions, not {kind(raw)}")
        return ()
    if len(raw) > MAX_CONDITIONS:
        errors.add(path, f"must be at most {MAX_CONDITIONS} conditions, not {len(raw):,}")
        return ()
    conditions: dict[str, Condition] = {}
    for index, item in enumerate(raw):
        condition = _condition(item, join_path(path, index), errors)
        if condition is None:
            continue
        if condition.name in conditions:
            errors.add(join_path(path, index, "name"), f'"{cut(condition.name)}" is declared twice')
        conditions[condition.name] = condition
    return tuple(conditions.values())


def _condition(raw: object, path: str, errors: ValidationErrors) -> Condition | None:
    if not _is_object(raw, path, _CONDITION_FIELDS, errors):
        return None
    name, key, expect = (_text(raw.get(field), join_path(path, field), errors) for field in _CONDITION_FIELDS)
    if name and not NAME.fullmatch(name):
        errors.add(
            join_path(path, "name"), f'must be letters, digits, "_" and "-", first a letter or "_", not "{cut(name)}"'
        )
    if expect:
        try:
            compile_expect(expect)
        except WrongParameter as error:
            errors.add(join_path(path, "expect"), error.message)
    return Condition(name, key, expect) if name and key and expect else None


def _expression(raw: object, path: str, errors: ValidationErrors) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str):
        errors.add(path, f"must be a text, not {kind(raw)}")
        return ""
    if not raw.strip():
        return ""
    try:
        parse_expression(raw)
    except ExpressionError as error:
        errors.add(path, error.message)
    return raw


def _states(raw: object, path: str, errors: ValidationErrors) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list):
        errors.add(path, f'must be ["*"] or a list of states, not {kind(raw)}')
    elif not raw:
        errors.add(path, 'must name at least one state; ["*"] stands for all')
    elif raw != [ANY_STATE]:
        for index, name in enumerate(raw):
            _check_state(name, join_path(path, index), errors)
    return tuple(raw) if isinstance(raw, list) else None


def _check_state(raw: object, path: str, errors: ValidationErrors) -> None:
    if not isinstance(raw, str):
        errors.add(path, f"must be the name of a state, not {kind(raw)}")
        return
    try:
        parse_states(raw)
    except KeyError:
        alone = '; "*" stands alone' if raw == ANY_STATE else ""
        errors.add(path, f'must be one of {", ".join(ALIASES)}, not "{cut(raw)}"{alone}')


def _is_object(
    raw: object, path: str, fields: Iterable[str], errors: ValidationErrors
) -> TypeGuard[Mapping[str, object]]:
    if not isinstance(raw, Mapping):
        errors.add(path, f"must be an object with {', '.join(fields)}, not {kind(raw)}")
        return False
    for field in raw:
        if field not in fields:
            errors.add(join_path(path, field), f"is no field here; there are {', '.join(fields)}")
    return True


def _text(raw: object, path: str, errors: ValidationErrors) -> str:
    """`raw` when it is a text; else adds an error and returns the empty text."""
    if raw is None or raw == "":
        hint = "; to match an empty value write /^$/" if path.endswith(".expect") else ""
        errors.add(path, f"is required and may not be empty{hint}")
    elif isinstance(raw, str):
        return raw
    else:
        errors.add(path, f"must be a text, not {kind(raw)}")
    return ""
