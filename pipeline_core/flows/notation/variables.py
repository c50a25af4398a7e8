"""Variables: what an expression `{{ … }}` in a text may contain, and rendering it in a sandbox.

Only `{{` and `}}` are special, so that a shell's `${#list[@]}` or `{%` stays as it is. The text between them is
parsed by Jinja2, checked against an allow-list of node types, and only then rendered by Jinja2's
ImmutableSandboxedEnvironment (https://jinja.palletsprojects.com/en/stable/sandbox/), which has only the given names, the
filters here, and facades in place of Python's modules `uuid` and `datetime`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from pipeline_core.common.clock import now
from pipeline_core.flows.notation.errors import NotationError
from pipeline_core.flows.notation.names import identity
from pipeline_core.validation.texts import cut, shown

MAX_TEXT = 64 * 1024
"""Bytes of one text before it is rendered."""

MAX_RENDERED = 256 * 1024
"""Bytes of one text after it was rendered."""

MAX_EXPRESSION = 1024
"""Characters between `{{` and `}}`."""

MAX_PARTS = 100
"""Nodes of one expression's tree. It bounds the work of an expression, as each part is at most MAX_RENDERED bytes."""

NAMES = ("creator", "runner", "pipeline_id", "pipeline_name", "cluster_name", "execution_date", "uuid", "datetime")
"""Names that every text may use, besides the keys of the flow's `global_env`."""

ATTRIBUTES = frozenset({"uuid4", "hex", "datetime", "now", "strptime", "strftime", "timedelta", "isoformat"})
"""Every attribute that an expression may name."""

_LISTED = 50

MAX_DATE_FORMAT = 256
"""Characters of a format of `strftime` or `strptime`."""

# A width, as in %100000d, would make the C library write that many characters.
_DATE_FORMAT = re.compile(r"(?:[^%]|%[-_0^#]?[A-Za-z%])*", re.DOTALL)

_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_EXPRESSION = re.compile(rf"\{{\{{((?:{_STRING}|[^'\"}}]|\}}(?!\}}))*)\}}\}}", re.DOTALL)
_OUTPUT = re.compile(rf"{_STRING}|(?<![\w.])(?P<task>[A-Za-z][A-Za-z0-9_-]*)\.output\b|\w+", re.DOTALL)
_PLACEHOLDER = "_output_"
_BRACES = "; braces that are meant for another program are written `{{ '{{' }}`"
_PREFIX = "v_"

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.Name,
    nodes.Const,
    nodes.TemplateData,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.Call,
    nodes.Keyword,
    nodes.Add,
    nodes.Sub,
    nodes.Concat,
    nodes.Neg,
    nodes.Filter,
)


class _NoValue(ValueError):
    """An expression has no value; the message says why."""


_EXPLANATIONS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    ((UndefinedError, LookupError, AttributeError), "there is no such item or attribute"),
    ((SecurityError,), "it reaches for what is not open to expressions"),
    ((OverflowError,), "a date or a span of time is too large or too small; years are from 1 to 9999"),
    (
        (TypeError,),
        "its parts do not fit together: `+` takes two numbers, two texts, or a date and a timedelta; `-` two numbers or two "
        "dates, or a date and a timedelta; `~` joins any two as texts; a function takes only the values that it is made for",
    ),
    ((ArithmeticError, ValueError, re.error), "a value in it is not of the form that it should have"),
)
"""What each kind of exception means for the writer of an expression."""
_EVALUATION_ERRORS = tuple(kind for kinds, _ in _EXPLANATIONS for kind in kinds)

_SYNTAX: Mapping[type[nodes.Node], str] = {
    nodes.Mul: "`*`",
    nodes.Div: "`/`",
    nodes.FloorDiv: "`//`",
    nodes.Mod: "`%`",
    nodes.Pow: "`**`",
    nodes.Pos: "a sign `+`",
    nodes.Compare: "a comparison",
    nodes.And: "`and`",
    nodes.Or: "`or`",
    nodes.Not: "`not`",
    nodes.CondExpr: "`if`",
    nodes.Test: "`is`",
    nodes.List: "a list",
    nodes.Tuple: "a list in round brackets",
    nodes.Dict: "an object in braces",
}
"""What people call the parts that may not be used."""


def _replace(value: object, old: object, new: object) -> str:
    text = str(value)
    if len(text) + text.count(str(old)) * len(str(new)) > MAX_RENDERED:
        raise _NoValue("the result of `replace` is too long")
    return text.replace(str(old), str(new))


def _whole_number(value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise _NoValue(f"{shown(str(value))} is no whole number") from None


FILTERS: Mapping[str, Callable[..., Any]] = {
    "lower": lambda text: str(text).lower(),
    "upper": lambda text: str(text).upper(),
    "trim": lambda text: str(text).strip(),
    "replace": _replace,
    "length": lambda text: len(str(text)),
    "int": _whole_number,
}
"""The filters, which all take and give texts or whole numbers."""


@dataclass(frozen=True, slots=True)
class _Expression:
    """One checked expression: its compiled form, the names it uses, and the tasks whose output it reads, in order."""

    source: str
    template: Template
    names: frozenset[str]
    tasks: tuple[str, ...]


def check(text: str, names: Collection[str]) -> frozenset[str]:
    """Check the expressions of a text. `names` are the keys of the flow's `global_env`, in a set or mapping where they are many.

    Returns the tasks, by identity, whose output it reads. Raises NotationError.
    """
    tasks: set[str] = set()
    for part in _parts(text):
        if isinstance(part, _Expression):
            _check_names(part, names)
            tasks.update(part.tasks)
    return frozenset(tasks)


def render(
    text: str, values: Mapping[str, Any], outputs: Mapping[str, str] | None = None, limit: int = MAX_RENDERED
) -> str:
    """The text with every `{{ … }}` replaced by its value.

    `values` are those of `builtin_values` and of the flow's `global_env`; `outputs` those of tasks, by identity.
    Raises NotationError for anything that is not allowed, not defined, or longer than `limit` bytes.
    """
    rendered: list[str] = []
    size = 0
    for part in _parts(text):
        piece = part if isinstance(part, str) else _evaluate(part, values, outputs or {})
        size += len(piece.encode("utf-8", "surrogatepass"))
        if size > limit:
            raise NotationError(f"is longer than {limit} bytes when its variables are filled in")
        rendered.append(piece)
    return "".join(rendered)


def builtin_values(
    *,
    creator: str,
    runner: str,
    pipeline_id: str,
    pipeline_name: str,
    cluster_name: str,
    execution_date: str,
    timezone: str = "UTC",
) -> dict[str, Any]:
    """The values of the built-in variables. `execution_date` is a text, `timezone` that of `datetime.now()`."""
    return {
        "creator": creator,
        "runner": runner,
        "pipeline_id": pipeline_id,
        "pipeline_name": pipeline_name,
        "cluster_name": cluster_name,
        "execution_date": execution_date,
        "uuid": _uuid_facade(),
        "datetime": _datetime_facade(timezone),
    }


def _parts(text: str) -> Iterator[str | _Expression]:
    """Plain text and expressions in turn."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise NotationError(f"is longer than {MAX_TEXT} bytes")
    position = 0
    while (start := text.find("{{", position)) >= 0:
        yield text[position:start]
        match = _EXPRESSION.match(text, start)
        if not match:
            raise NotationError(
                f"has {shown(text[start : start + 40])}, where `{{{{` opens what no `}}}}` closes; `{{{{ '{{{{' }}}}` writes it"
            )
        yield _expression(match[1])
        position = match.end()
    yield text[position:]


@lru_cache(maxsize=1024)
def _expression(source: str) -> _Expression:
    where = f"has {_quoted(source)}"
    if len(source) > MAX_EXPRESSION:
        raise NotationError(f"{where}, which is longer than {MAX_EXPRESSION} characters")
    tasks: list[str] = []

    def placeholder(match: re.Match[str]) -> str:
        if match["task"] is None:
            return match[0]
        tasks.append(identity(match["task"]))
        return f"{_PLACEHOLDER}{len(tasks) - 1}"

    jinja = _OUTPUT.sub(placeholder, source)
    try:
        tree = _ENVIRONMENT.parse(f"{{{{ {jinja} }}}}")
    except (TemplateSyntaxError, RecursionError, SecurityError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else _syntax_problem(error)
        raise NotationError(f"{where}, which is no expression: {reason}{_BRACES}") from None
    try:
        names = _checked(tree)
    except NotationError as error:
        raise NotationError(f"{where}: {error}{_BRACES}") from None
    return _Expression(source, _ENVIRONMENT.from_string(tree), names, tuple(tasks))


def _quoted(source: str) -> str:
    return f"{{{{{cut(source, 60)}}}}}"


def _syntax_problem(error: TemplateSyntaxError | SecurityError) -> str:
    """Jinja2's message, with the end of the expression in place of that of its statement."""
    return (
        str(error)
        .partition("\n")[0]
        .replace("'end of print statement'", "its end")
        .replace("expected token ", "expected ")
    )


def _checked(tree: nodes.Template) -> frozenset[str]:
    """The names that the tree uses. Raises NotationError for a node that may not be there."""
    outputs = tree.body
    if len(outputs) != 1 or not isinstance(outputs[0], nodes.Output) or len(outputs[0].nodes) != 1:
        raise NotationError("must be one expression")
    names: set[str] = set()
    waiting: list[nodes.Node] = [tree]
    count = 0
    while waiting:
        node = waiting.pop()
        count += 1
        if count > MAX_PARTS:
            raise NotationError(f"has more than {MAX_PARTS} parts")
        if problem := _disallowed(node):
            raise NotationError(problem)
        if isinstance(node, nodes.Name):
            names.add(node.name)
            # Jinja2 gives some names (`self`, `super`) a meaning of its own; with a prefix none has one.
            node.name = _PREFIX + node.name
        waiting.extend(node.iter_child_nodes())
    return frozenset(names)


def _disallowed(node: nodes.Node) -> str | None:
    if not isinstance(node, _ALLOWED):
        what = _SYNTAX.get(type(node), "a part of this kind")
        return f"{what} may not be used; there are names, items, slices, `+`, `-`, `~` and filters"
    if isinstance(node, nodes.Getattr) and node.attr not in ATTRIBUTES:
        return f"there is no attribute {shown(node.attr)}; there are {', '.join(sorted(ATTRIBUTES))}, and `output` of tasks"
    if isinstance(node, nodes.Getitem) and not all(map(_is_index, _indices(node.arg))):
        return "items and slices must be whole numbers"
    if isinstance(node, nodes.Call) and (node.dyn_args or node.dyn_kwargs or not isinstance(node.node, nodes.Getattr)):
        return "only functions of `uuid` and `datetime` may be called"
    if isinstance(node, nodes.Filter) and (node.name not in FILTERS or node.dyn_args or node.dyn_kwargs):
        return f"there is no filter {shown(node.name)}; there are {', '.join(FILTERS)}"
    return None


def _indices(index: nodes.Expr) -> list[nodes.Expr]:
    bounds = [index.start, index.stop, index.step] if isinstance(index, nodes.Slice) else [index]
    return [bound for bound in bounds if bound is not None]


def _is_index(index: nodes.Expr) -> bool:
    number = index.node if isinstance(index, nodes.Neg) else index
    return isinstance(number, nodes.Const) and type(number.value) is int


def _check_names(expression: _Expression, names: Collection[str]) -> None:
    for name in sorted(expression.names):
        if name not in NAMES and name not in names and not _is_placeholder(expression, name):
            raise NotationError(
                f"has {_quoted(expression.source)}: {shown(name)} is not defined; there are {_listed(names)}{_BRACES}"
            )


def _listed(names: Collection[str]) -> str:
    """The names that there are, cut where they are many."""
    own = list(islice((name for name in names if name not in NAMES), _LISTED + 1))
    return ", ".join([*NAMES, *own[:_LISTED], *(["…"] if len(own) > _LISTED else [])])


def _is_placeholder(expression: _Expression, name: str) -> bool:
    return name in {f"{_PLACEHOLDER}{index}" for index in range(len(expression.tasks))}


def _evaluate(expression: _Expression, values: Mapping[str, Any], outputs: Mapping[str, str]) -> str:
    _check_names(expression, values.keys())
    missing = [task for task in expression.tasks if task not in outputs]
    if missing:
        raise NotationError(f"has {_quoted(expression.source)}: there is no output of a task {missing[0]} here")
    own = {f"{_PLACEHOLDER}{index}": outputs[task] for index, task in enumerate(expression.tasks)}
    try:
        return expression.template.render(
            {_PREFIX + name: own[name] if name in own else values[name] for name in expression.names}
        )
    except _EVALUATION_ERRORS as error:
        raise NotationError(f"has {_quoted(expression.source)}, which has no value: {_explained(error)}") from None


def _explained(error: Exception) -> str:
    """Why an expression has no value, in words of this notation and not of Python."""
    if isinstance(error, _NoValue):
        return str(error)
    return next(text for kinds, text in _EXPLANATIONS if isinstance(error, kinds))


class WallClockTime(datetime):
    """A local date and time in the flow's time zone, without tzinfo."""

    def strftime(self, format: str) -> str:
        """As datetime's, with formats of at most MAX_DATE_FORMAT characters and without widths. Raises ValueError."""
        return super().strftime(_checked_format(format))


class _Facade(SimpleNamespace):
    """Functions that an expression may call. It has no text of its own: that of Python has addresses of memory in it."""

    def __str__(self) -> str:
        raise _NoValue(f"it has no text; say which of its parts is meant: {', '.join(vars(self))}")


class _Function:
    """A function that an expression may call. It has no text of its own either."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *positional: Any, **named: Any) -> Any:
        return self._function(*positional, **named)

    def __str__(self) -> str:
        raise _NoValue("a function has no text; call it, with ( )")


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, in which functions of facades and values can be called, and not printed."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        value = super().getattr(obj, attribute)
        return _Function(value) if callable(value) and not isinstance(value, StrictUndefined) else value


def _uuid_facade() -> _Facade:
    """Offers `uuid4()`, whose result has `hex`."""
    return _Facade(uuid4=uuid.uuid4)


def _datetime_facade(timezone: str) -> _Facade:
    """Offers `datetime.now()`, `datetime.strptime(text, format)` and `timedelta(days=1)`; now is that of `timezone`."""
    zone = ZoneInfo(timezone)

    def current() -> WallClockTime:
        return WallClockTime.fromisoformat(now().astimezone(zone).replace(tzinfo=None).isoformat())

    def parsed(text: str, format: str) -> WallClockTime:
        if len(text) > MAX_DATE_FORMAT:
            raise _NoValue(f"a date must have at most {MAX_DATE_FORMAT} characters")
        try:
            return WallClockTime.strptime(text, _checked_format(format)).replace(tzinfo=None)
        except _NoValue:
            raise
        except ValueError:
            raise _NoValue(f"{shown(text)} is no date of the form {shown(format)}") from None

    return _Facade(datetime=_Facade(now=current, strptime=parsed), timedelta=timedelta)


def _checked_format(format: str) -> str:
    if len(format) > MAX_DATE_FORMAT or not _DATE_FORMAT.fullmatch(format):
        raise _NoValue(f"a format must be at most {MAX_DATE_FORMAT} characters, with directives as %Y or %-d")
    return format


def _environment() -> _Sandbox:
    environment = _Sandbox(undefined=StrictUndefined, autoescape=False, optimized=False, cache_size=0)
    environment.globals.clear()
    environment.tests.clear()
    environment.filters.clear()
    environment.filters.update(FILTERS)
    return environment


_ENVIRONMENT = _environment()
