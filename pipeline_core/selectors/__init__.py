"""Which jobs a plugin takes part in: the `jobSelector` of features and plugins, from JSON to a yes or no.

`parse_selector` reads one from JSON, `merge` lays a plugin's over its feature's, `compile` turns the result into a
`Matcher` that is asked for each job's header. The expression language (`expression`), what `expect` means (`expect`)
and how a key finds its text (`header`) are modules of their own. Only the names listed here are for use from outside.
"""

from pipeline_core.selectors.expression import parse_expression
from pipeline_core.selectors.header import PRESETS
from pipeline_core.selectors.matcher import ConditionValue, Explanation, Matcher, compile
from pipeline_core.selectors.merging import merge
from pipeline_core.selectors.parsing import parse_selector
from pipeline_core.selectors.selector import Condition, Selector

__all__ = [
    "PRESETS",
    "Condition",
    "ConditionValue",
    "Explanation",
    "Matcher",
    "Selector",
    "compile",
    "merge",
    "parse_expression",
    "parse_selector",
]
