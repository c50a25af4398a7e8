"""Compiled selectors, which match the headers of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline_core.selectors.conditions import PRESETS, Header, compile_expect, reader
from pipeline_core.selectors.expression import Expression, names
from pipeline_core.selectors.selector import Condition, Selector, checked_tree


@dataclass(frozen=True, slots=True)
class ConditionValue:
    """The value of one condition for a job: the text that was found under its key, and whether it matched.

    `expect` is None for a preset that the expression uses by its name, which holds when the text is not empty.
    """

    name: str
    key: str
    expect: str | None
    found: str
    matched: bool

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "key": self.key,
            "expect": self.expect,
            "found": self.found,
            "matched": self.matched,
        }


@dataclass(frozen=True, slots=True)
class SelectorExplanation:
    """Why a selector matches a job or not: every declared condition, then the presets that the expression uses."""

    expression: str
    conditions: tuple[ConditionValue, ...]
    matched: bool

    def to_json(self) -> dict[str, object]:
        return {
            "expression": self.expression,
            "conditions": [condition.to_json() for condition in self.conditions],
            "matched": self.matched,
        }


@dataclass(frozen=True, slots=True)
class _Test:
    """A condition, or a preset used by its name, compiled."""

    key: str
    expect: str | None
    read: Callable[[Header], str]
    accepts: Callable[[str], bool]

    @classmethod
    def of_condition(cls, condition: Condition) -> _Test:
        return cls(condition.key, condition.expect, reader(condition.key), compile_expect(condition.expect))

    @classmethod
    def of_preset(cls, name: str) -> _Test:
        return cls(name, None, reader(name), bool)


class Matcher:
    """A compiled selector. It is immutable and may be shared by threads."""

    __slots__ = ("_tests", "_tree", "selector")

    def __init__(self, selector: Selector, tree: Expression, tests: Mapping[str, _Test]) -> None:
        self.selector = selector
        self._tree = tree
        self._tests = tests

    @property
    def fields(self) -> frozenset[str]:
        """The top-level fields of a header that it reads: `matches` decides the same for headers that have the same ones."""
        return frozenset(name for test in self._tests.values() for name in (test.key, test.key.partition(".")[0]))

    def matches(self, header: Header) -> bool:
        """Whether the selector matches a job with this header. Evaluates only conditions that decide the result."""
        known: dict[str, bool] = {}

        def value(name: str) -> bool:
            found = known.get(name)
            if found is None:
                test = self._tests[name]
                found = known[name] = test.accepts(test.read(header))
            return found

        return self._tree.holds(value)

    def explain(self, header: Header) -> SelectorExplanation:
        """The value of each condition for a job with this header, and the result."""
        values = tuple(_value(name, test, header) for name, test in self._tests.items())
        matched = {value.name: value.matched for value in values}
        return SelectorExplanation(self.selector.expression, values, self._tree.holds(matched.__getitem__))


def _value(name: str, test: _Test, header: Header) -> ConditionValue:
    found = test.read(header)
    return ConditionValue(name, test.key, test.expect, found, test.accepts(found))


def compile(selector: Selector) -> Matcher:
    """The matcher of an effective selector, as `merge` returns it.

    Raises WrongParameter when the selector is not valid (see `checked_tree`).
    """
    tree = checked_tree(selector, "jobSelector", "jobSelector")
    tests = {condition.name: _Test.of_condition(condition) for condition in selector.conditions}
    used = {name.name for name in names(tree)}
    tests.update((name, _Test.of_preset(name)) for name in PRESETS if name in used and name not in tests)
    return Matcher(selector, tree, tests)
