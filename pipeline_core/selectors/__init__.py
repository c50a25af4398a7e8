"""Which jobs a plugin is called for: the `jobSelector` of features and plugins, parsed, merged, compiled and matched.

Read in this order: `selector` (what is declared, and `merge`, which merges a plugin's with its feature's), `parsing` (a
selector from JSON), `expression` (the language that joins conditions), `conditions` (what a `key` finds and an `expect`
accepts), `matcher` (`compile` makes a selector a `Matcher`, which decides for a job's header). From outside use
the names that this package has, and limits such as `selector.MAX_CONDITIONS` from their modules.
"""

from pipeline_core.selectors.conditions import PRESETS
from pipeline_core.selectors.expression import parse_expression
from pipeline_core.selectors.matcher import ConditionValue, Matcher, SelectorExplanation, compile
from pipeline_core.selectors.parsing import parse_selector
from pipeline_core.selectors.selector import Condition, Selector, merge

__all__ = [
    "PRESETS",
    "Condition",
    "ConditionValue",
    "Matcher",
    "Selector",
    "SelectorExplanation",
    "compile",
    "merge",
    "parse_expression",
    "parse_selector",
]
