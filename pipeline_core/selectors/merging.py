"""A plugin's selector laid over its feature's, and what must hold for the result."""

from __future__ import annotations

from pipeline_core.selectors.expression import Everything, Expression, ExpressionError, names, parse_expression
from pipeline_core.selectors.header import PRESETS
from pipeline_core.selectors.selector import MAX_CONDITIONS, Selector
from pipeline_core.validation.errors import ValidationErrors, join_path
from pipeline_core.validation.texts import cut


def merge(
    feature: Selector | None, plugin: Selector | None, path: str = "jobSelector", feature_path: str = "jobSelector"
) -> Selector:
    """The selector that takes effect for a plugin of a feature.

    The plugin's conditions take the place of the feature's of the same name and stand beside the others; its
    expression, when it has one, replaces the feature's. `states` are the plugin's own. `path` and `feature_path` are
    the fields that the two came from: errors are reported under them.

    Raises WrongParameter when the result is not sound (see `checked_tree`), or when the plugin declares a condition
    that the expression in effect does not use.
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

    The paths name the selectors that the conditions and the expression came from.

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
