"""Selectors from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeGuard

from pipeline_core.errors import WrongParameter
from pipeline_core.selectors.expect import compile_expect
from pipeline_core.selectors.expression import NAME, ExpressionError, parse_expression
from pipeline_core.selectors.faults import Faults, cut, kind
from pipeline_core.selectors.selector import ANY_STATE, MAX_CONDITIONS, Condition, Selector
from pipeline_core.states import ALIASES, parse_states

_CONDITION_FIELDS = ("name", "key", "expect")
_FIELDS = ("conditions", "expression", "states")


def parse_selector(raw: object, path: str, *, with_states: bool = False) -> Selector | None:
    """The selector that `raw`, parsed JSON from the field `path`, declares. Null declares none.

    `conditions`, `expression` and `states` may be left out or null; `states` may be there only `with_states` (on a
    LifeHook). What can be told from this selector alone is checked; `merge` checks what depends on the other side.

    Raises WrongParameter with every fault in `errors`, by path.
    """
    if raw is None:
        return None
    faults = Faults()
    selector = _selector(raw, path, with_states, faults)
    faults.raise_any()
    return selector


def _selector(raw: object, path: str, with_states: bool, faults: Faults) -> Selector:
    if not _is_object(raw, path, _FIELDS, faults):
        return Selector()
    if not with_states and raw.get("states") is not None:
        faults.add(f"{path}.states", "only the selector of a LifeHook has states")
    return Selector(
        conditions=_conditions(raw.get("conditions"), f"{path}.conditions", faults),
        expression=_expression(raw.get("expression"), f"{path}.expression", faults),
        states=_states(raw.get("states"), f"{path}.states", faults) if with_states else None,
    )


def _conditions(raw: object, path: str, faults: Faults) -> tuple[Condition, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        faults.add(path, f"must be a list of conditions, not {kind(raw)}")
        return ()
    if len(raw) > MAX_CONDITIONS:
        faults.add(path, f"must be at most {MAX_CONDITIONS} conditions, not {len(raw):,}")
        return ()
    conditions: dict[str, Condition] = {}
    for index, item in enumerate(raw):
        condition = _condition(item, f"{path}.{index}", faults)
        if condition is None:
            continue
        if condition.name in conditions:
            faults.add(f"{path}.{index}.name", f'"{cut(condition.name)}" is declared twice')
        conditions[condition.name] = condition
    return tuple(conditions.values())


def _condition(raw: object, path: str, faults: Faults) -> Condition | None:
    if not _is_object(raw, path, _CONDITION_FIELDS, faults):
        return None
    name, key, expect = (_text(raw.get(field), f"{path}.{field}", faults) for field in _CONDITION_FIELDS)
    if name and not NAME.fullmatch(name):
        faults.add(f"{path}.name", f'must be letters, digits, "_" and "-", first a letter or "_", not "{cut(name)}"')
    if expect:
        try:
            compile_expect(expect)
        except WrongParameter as error:
            faults.add(f"{path}.expect", error.message)
    return Condition(name, key, expect) if name and key and expect else None


def _expression(raw: object, path: str, faults: Faults) -> str:
    if raw is None:
        return ""
    if not isinstance(raw, str):
        faults.add(path, f"must be a text, not {kind(raw)}")
        return ""
    if not raw.strip():
        return ""
    try:
        parse_expression(raw)
    except ExpressionError as error:
        faults.add(path, error.message)
    return raw


def _states(raw: object, path: str, faults: Faults) -> tuple[str, ...] | None:
    if raw is None:
        return None
    if not isinstance(raw, list):
        faults.add(path, f'must be ["*"] or a list of states, not {kind(raw)}')
    elif not raw:
        faults.add(path, 'must name at least one state; ["*"] stands for all')
    elif raw != [ANY_STATE]:
        for index, name in enumerate(raw):
            _check_state(name, f"{path}.{index}", faults)
    return tuple(raw) if isinstance(raw, list) else None


def _check_state(raw: object, path: str, faults: Faults) -> None:
    if not isinstance(raw, str):
        faults.add(path, f"must be the name of a state, not {kind(raw)}")
        return
    try:
        parse_states(raw)
    except KeyError:
        alone = '; "*" stands alone' if raw == ANY_STATE else ""
        faults.add(path, f'must be one of {", ".join(ALIASES)}, not "{cut(raw)}"{alone}')


def _is_object(raw: object, path: str, fields: Iterable[str], faults: Faults) -> TypeGuard[Mapping[str, object]]:
    if not isinstance(raw, Mapping):
        faults.add(path, f"must be an object with {', '.join(fields)}, not {kind(raw)}")
        return False
    for field in raw:
        if field not in fields:
            faults.add(f"{path}.{field}", f"is no field here; there are {', '.join(fields)}")
    return True


def _text(raw: object, path: str, faults: Faults) -> str:
    """`raw` when it is a text; else the empty text, and the fault is noted."""
    if raw is None or raw == "":
        hint = "; to match an empty value write /^$/" if path.endswith(".expect") else ""
        faults.add(path, f"is required and may not be empty{hint}")
    elif isinstance(raw, str):
        return raw
    else:
        faults.add(path, f"must be a text, not {kind(raw)}")
    return ""
