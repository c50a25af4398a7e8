"""The language of a selector's `expression`: its tree, its parser and its printer.

    selector    = "*" | disjunction
    disjunction = conjunction { "||" conjunction }
    conjunction = operand { "&&" operand }
    operand     = "!" operand | "(" disjunction ")" | name
    name        = [A-Za-z_][A-Za-z0-9_-]*

White space is allowed between any two tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

from pipeline_core.errors import WrongParameter
from pipeline_core.validation.texts import cut

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
MAX_LENGTH = 4000
"""The longest expression, in characters."""
MAX_DEPTH = 100
"""How deeply `(` and `!` may be nested. It bounds the recursion of all functions that walk a tree."""

Value = Callable[[str], bool]
"""Returns whether the condition of that name holds. Called only for names that decide the result."""


class ExpressionError(WrongParameter):
    """The text is not a valid expression. `column` counts characters from 1."""

    def __init__(self, column: int, text: str) -> None:
        self.column = column
        message = f"column {column}: {text}"
        super().__init__(message, errors={"expression": [message]})


@dataclass(frozen=True, slots=True)
class Everything:
    """`*`: true for every job."""

    def holds(self, value: Value) -> bool:
        return True

    def __str__(self) -> str:
        return "*"


@dataclass(frozen=True, slots=True)
class Name:
    """A condition or a preset. Its place in the text (`column`, from 1; 0 if unknown) is not compared."""

    name: str
    column: int = field(default=0, compare=False, repr=False)

    def holds(self, value: Value) -> bool:
        return value(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Not:
    operand: Operand

    def holds(self, value: Value) -> bool:
        return not self.operand.holds(value)

    def __str__(self) -> str:
        return _text(self)


@dataclass(frozen=True, slots=True)
class _Joined:
    """Two or more operands of one operator. Nested operands of the same operator are flattened: `a && (b && c)` becomes
    `a && b && c`."""

    operands: tuple[Operand, ...]

    def __post_init__(self) -> None:
        flat: list[Operand] = []
        for operand in self.operands:
            flat.extend(operand.operands if isinstance(operand, type(self)) else [operand])
        if len(flat) < 2:
            raise ValueError(f"{type(self).__name__} joins at least two operands")
        object.__setattr__(self, "operands", tuple(flat))

    @classmethod
    def of(cls, operands: Sequence[Operand]) -> Operand | Self:
        """The operands joined; a single one is itself."""
        return operands[0] if len(operands) == 1 else cls(tuple(operands))

    def __str__(self) -> str:
        return _text(self)


@dataclass(frozen=True, slots=True)
class And(_Joined):
    def holds(self, value: Value) -> bool:
        for operand in self.operands:  # noqa: SIM110 -- all() would double the depth of the stack
            if not operand.holds(value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class Or(_Joined):
    def holds(self, value: Value) -> bool:
        for operand in self.operands:  # noqa: SIM110 -- any() would double the depth of the stack
            if operand.holds(value):
                return True
        return False


Operand = Name | Not | And | Or
Expression = Everything | Operand


def names(tree: Expression) -> Iterator[Name]:
    """All occurrences of names in the tree, from left to right."""
    rest: list[Expression] = [tree]
    while rest:
        node = rest.pop()
        match node:
            case Name():
                yield node
            case Not(operand):
                rest.append(operand)
            case And(operands) | Or(operands):
                rest.extend(reversed(operands))


def parse_expression(text: str) -> Expression:
    """The tree of an expression.

    Raises ExpressionError, which names the column and what was expected there.
    """
    if len(text) > MAX_LENGTH:
        raise ExpressionError(MAX_LENGTH + 1, f"an expression has at most {MAX_LENGTH:,} characters, not {len(text):,}")
    return _Parser(text).expression()


class _Token(NamedTuple):
    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f'"{cut(self.text)}"'


_TOKEN = re.compile(rf"\s*(?:(?P<name>{NAME.pattern})|(?P<sign>&&|\|\||[!()*])|(?P<stray>.)|(?P<end>\Z))", re.DOTALL)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        group = match.lastgroup or "end"
        found = match[group]
        yield _Token(found if group == "sign" else group, found, match.start(group) + 1)


class _Parser:
    """Recursive descent: a method for each rule of the grammar."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)
        self._depth = 0

    def expression(self) -> Expression:
        if self._take("*"):
            self._require("end", 'the end, since "*" stands alone')
            return Everything()
        tree = self._disjunction(start=True)
        self._require("end", '"&&", "||" or the end')
        return tree

    def _disjunction(self, *, start: bool = False) -> Operand:
        # Both binary rules in one method: half as many stack frames per level of parentheses.
        alternatives: list[Operand] = []
        while True:
            factors = [self._operand(start=start)]
            while self._take("&&"):
                factors.append(self._operand())
            alternatives.append(And.of(factors))
            start = False
            if not self._take("||"):
                return Or.of(alternatives)

    def _operand(self, *, start: bool = False) -> Operand:
        if token := self._take("name"):
            return Name(token.text, token.column)
        if token := self._take("!"):
            self._enter(token)
            operand: Operand = Not(self._operand())
        elif token := self._take("("):
            self._enter(token)
            operand = self._disjunction()
            self._require(")", '"&&", "||" or ")"')
        else:
            raise self._unexpected('a name, "!", "(" or "*"' if start else 'a name, "!" or "("')
        self._depth -= 1
        return operand

    def _enter(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ExpressionError(token.column, f'expected at most {MAX_DEPTH} levels of "(" and "!"')

    def _take(self, kind: str) -> _Token | None:
        if self._next.kind != kind:
            return None
        token, self._next = self._next, next(self._tokens, self._next)
        return token

    def _require(self, kind: str, expected: str) -> None:
        if not self._take(kind):
            raise self._unexpected(expected)

    def _unexpected(self, expected: str) -> ExpressionError:
        alone = ", which stands alone" if self._next.kind == "*" else ""
        return ExpressionError(self._next.column, f"expected {expected}, found {self._next}{alone}")


_OR, _AND, _NOT = range(3)


def _text(tree: Operand | _Joined) -> str:
    pieces: list[str] = []
    _write(tree, _OR, pieces)
    return "".join(pieces)


def _write(tree: Operand | _Joined, loosest: int, pieces: list[str]) -> None:
    """Append the text of `tree`, in parentheses when its operator binds less tightly than `loosest`."""
    match tree:
        case Name(name):
            pieces.append(name)
        case Not(operand):
            pieces.append("!")
            _write(operand, _NOT, pieces)
        case _Joined(operands):
            binding, sign = (_AND, " && ") if isinstance(tree, And) else (_OR, " || ")
            opening, closing = ("(", ")") if binding < loosest else ("", "")
            for position, operand in enumerate(operands):
                pieces.append(sign if position else opening)
                _write(operand, binding, pieces)
            pieces.append(closing)
