"""Selectors as declared, and merging a plugin's with its feature's."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_core.selectors.conditions import PRESETS
from pipeline_core.selectors.expression import Everything, Expression, ExpressionError, names, parse_expression
from pipeline_core.states import JobState, parse_states
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import cut

MAX_CONDITIONS = 200
ANY_STATE = "*"


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the text that `key` finds in a job's header matches `expect`."""

    name: str
    key: str
    expect: str

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "key": self.key, "expect": self.expect}


@dataclass(frozen=True, slots=True)
class Selector:
    """The selector of a feature or a plugin, or both merged. `expression` is empty when there is none, `states` None."""

    conditions: tuple[Condition, ...] = ()
    expression: str = ""
    states: tuple[str, ...] | None = None

    @property
    def job_states(self) -> frozenset[JobState]:
        """The states whose events a LifeHook gets; all when none are named."""
        if self.states is None or self.states == (ANY_STATE,):
            return frozenset(JobState)
        return frozenset().union(*map(parse_states, self.states))

    def to_json(self) -> dict[str, object]:
        """The selector as plain JSON; `states` only when it was declared."""
        raw: dict[str, object] = {
            "conditions": [condition.to_json() for condition in self.conditions],
            "expression": self.expression,
        }
        if self.states is not None:
            raw["states"] = list(self.states)
        return raw


def merge(
    feature: Selector | None, plugin: Selector | None, path: str = "jobSelector", feature_path: str = "jobSelector"
) -> Selector:
    """The effective selector of a plugin of a feature.

    The plugin's conditions replace the feature's of the same name and are added to the others; its
    expression, when it has one, replaces the feature's. `states` are the plugin's own. `path` and `feature_path` are
    the fields that the two came from: errors are reported under them.

    Raises WrongParameter when the result is not valid (see `checked_tree`), or when the plugin declares a condition
    that the effective expression does not use.
    """
    feature, plugin = feature or Selector(), plugin or Selector()
    conditions = {condition.name: condition for condition in (*feature.conditions, *plugin.conditions)}
    merged = Selector(tuple(conditions.values()), plugin.expression or feature.expression, plugin.states)
    plugin_at_fault = plugin.expression or (plugin.conditions and not feature.expression)
    tree = checked_tree(merged, path if plugin.conditions else feature_path, path if plugin_at_fault else feature_path)
    used = {name.name for name in names(tree)}
    errors = ValidationErrors()
    for index, condition in enumerate(plugin.conditions):
        if condition.name not in used:
            errors.add(
                join_path(path, "conditions", index),
                f'"{cut(condition.name)}" is declared here but not used by the expression "{cut(merged.expression)}"',
            )
    errors.raise_any()
    return merged


def checked_tree(selector: Selector, conditions_path: str, expression_path: str) -> Expression:
    """The tree of a selector's expression; without conditions and expression, one that is always true.

    Errors are reported under the paths, which are those of the selectors that the conditions and the expression came from.

    Raises WrongParameter for conditions without an expression, too many conditions, an expression that does not parse
    and names that are neither declared nor presets.
    """
    errors = ValidationErrors()
    if len(selector.conditions) > MAX_CONDITIONS:
        errors.add(
            join_path(conditions_path, "conditions"),
            f"must be at most {MAX_CONDITIONS} conditions, the feature's among them",
        )
    tree: Expression = Everything()
    if selector.expression:
        tree = _parsed(selector.expression, join_path(expression_path, "expression"), errors)
    elif selector.conditions:
        errors.add(
            join_path(expression_path, "expression"),
            'conditions need an expression that uses them; "*" matches every job',
        )
    known = {*PRESETS, *(condition.name for condition in selector.conditions)}
    for name in names(tree):
        if name.name not in known:
            errors.add(
                join_path(expression_path, "expression"),
                f"column {name.column}: expected a declared condition or one of {', '.join(PRESETS)}, "
                f'found "{cut(name.name)}"',
            )
    errors.raise_any()
    return tree


def _parsed(expression: str, path: str, errors: ValidationErrors) -> Expression:
    try:
        return parse_expression(expression)
    except ExpressionError as error:
        errors.add(path, error.message)
        return Everything()
