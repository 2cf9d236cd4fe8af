"""`--where`: an expression over the fields of a record, parsed here, never evaluated as code.

    value.amount > 100 and key = 'k7'
    headers.source = "mobile" or not value.items[0].sku contains 'X'
    topic in ('orders', 'payments') and value.customer.id is not null

In comes a text, out goes a function from a record's fields to true or false. A path begins with key, value,
headers, topic, partition, offset or timestamp; names that are no words stand in quotes: value.'first name'.
A path that leads nowhere is null. Numbers compare with numbers and texts with texts; any other comparison is
false, and so is one with null, apart from `is null`. `contains` looks into texts and lists.

Length and depth of an expression are bounded, and each test takes time in proportion to the expression.
"""

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

ROOTS = ("key", "value", "headers", "topic", "partition", "offset", "timestamp")
MOST_CHARACTERS = 4096
MOST_DEPTH = 32

Fields = Mapping[str, Any]
Test = Callable[[Fields], bool]
Operand = Callable[[Fields], Any]

TOKEN = re.compile(
    r"\s*(?:(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d{1,3})?)|(?P<text>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\")"
    r"|(?P<word>[^\W\d][\w-]*)|(?P<sign><=|>=|!=|<>|==|[=<>().,\[\]]))"
)
ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne, "<>": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
CONSTANTS = {"true": True, "false": False, "null": None}


class WhereError(ValueError):
    """The expression is wrong; the message says where."""


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


def parse_where(text: str) -> Test:
    """Return the test that an expression describes. Raise WhereError."""
    if len(text) > MOST_CHARACTERS:
        raise WhereError(f"an expression has at most {MOST_CHARACTERS:,} characters")
    parser = _Parser(_tokens(text))
    test = parser.alternatives(0)
    parser.require_end()
    return test


def _tokens(text: str) -> list[_Token]:
    tokens, position = [], 0
    while position < len(text.rstrip()):
        found = TOKEN.match(text, position)
        if found is None:
            raise WhereError(f"{text[position:].strip()[:20]!r} cannot stand there")
        kind = found.lastgroup or ""
        tokens.append(_Token(kind, found[kind], found.start(kind)))
        position = found.end()
    return tokens


class _Parser:
    """A recursive descent over the tokens of an expression."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._next = tokens, 0

    def alternatives(self, depth: int) -> Test:
        if depth > MOST_DEPTH:
            raise WhereError(f"an expression is at most {MOST_DEPTH} levels deep")
        tests = [self._conjunction(depth)]
        while self._takes("word", "or"):
            tests.append(self._conjunction(depth))
        return tests[0] if len(tests) == 1 else lambda fields: any(test(fields) for test in tests)

    def require_end(self) -> None:
        if self._next < len(self._tokens):
            raise WhereError(f"{self._tokens[self._next].text!r} cannot stand there")

    def _conjunction(self, depth: int) -> Test:
        tests = [self._negation(depth)]
        while self._takes("word", "and"):
            tests.append(self._negation(depth))
        return tests[0] if len(tests) == 1 else lambda fields: all(test(fields) for test in tests)

    def _negation(self, depth: int) -> Test:
        negated = False
        while self._takes("word", "not"):
            negated = not negated
        if self._takes("sign", "("):
            test = self.alternatives(depth + 1)
            self._require("sign", ")")
        else:
            test = self._comparison()
        return (lambda fields: not test(fields)) if negated else test

    def _comparison(self) -> Test:
        left = self._operand()
        token = self._token()
        if token and token.kind == "sign" and token.text in ORDERS:
            self._next += 1
            return _compared(left, ORDERS[token.text], self._operand())
        if self._takes("word", "is"):
            wanted = not self._takes("word", "not")
            self._require("word", "null")
            return lambda fields: (left(fields) is None) is wanted
        if self._takes("word", "contains"):
            right = self._operand()
            return lambda fields: _contains(left(fields), right(fields))
        if self._takes("word", "in"):
            return self._membership(left)
        return lambda fields: left(fields) is True

    def _membership(self, left: Operand) -> Test:
        self._require("sign", "(")
        operands = [self._operand()]
        while self._takes("sign", ","):
            operands.append(self._operand())
        self._require("sign", ")")
        tests = [_compared(left, operator.eq, right) for right in operands]
        return lambda fields: any(test(fields) for test in tests)

    def _operand(self) -> Operand:
        token = self._token()
        self._next += 1
        if token is None:
            raise WhereError("the expression ends early")
        if token.kind == "number":
            number = float(token.text) if re.search(r"[.eE]", token.text) else int(token.text)
            return lambda _fields: number
        if token.kind == "text":
            text = _unquoted(token.text)
            return lambda _fields: text
        if token.kind == "word" and token.text.lower() in CONSTANTS:
            constant = CONSTANTS[token.text.lower()]
            return lambda _fields: constant
        if token.kind == "word" and token.text in ROOTS:
            return self._path(token.text)
        known = ", ".join(ROOTS)
        raise WhereError(f"{token.text!r} is no field of a record (fields: {known})")

    def _path(self, root: str) -> Operand:
        steps: list[str | int] = []
        while True:
            if self._takes("sign", "."):
                steps.append(self._name())
            elif self._takes("sign", "["):
                steps.append(self._index())
                self._require("sign", "]")
            else:
                return lambda fields: _at(fields.get(root), steps)

    def _name(self) -> str:
        token = self._token()
        self._next += 1
        if token is None or token.kind not in ("word", "text"):
            raise WhereError("a name must follow a point")
        return _unquoted(token.text) if token.kind == "text" else token.text

    def _index(self) -> str | int:
        token = self._token()
        self._next += 1
        if token and token.kind == "text":
            return _unquoted(token.text)
        if token and token.kind == "number" and token.text.isdecimal():
            return int(token.text)
        raise WhereError("a number or a name in quotes must stand in brackets")

    def _token(self) -> _Token | None:
        return self._tokens[self._next] if self._next < len(self._tokens) else None

    def _takes(self, kind: str, text: str) -> bool:
        token = self._token()
        taken = token is not None and token.kind == kind and token.text.lower() == text
        self._next += taken
        return taken

    def _require(self, kind: str, text: str) -> None:
        if not self._takes(kind, text):
            token = self._token()
            found = f"not {token.text!r}" if token else "but the expression ends"
            raise WhereError(f"{text!r} must stand there, {found}")


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _compared(left: Operand, order: Callable[[Any, Any], bool], right: Operand) -> Test:
    return lambda fields: _comparable(left(fields), right(fields), order)


def _comparable(left: Any, right: Any, order: Callable[[Any, Any], bool]) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (left, right))
    texts = isinstance(left, str) and isinstance(right, str)
    booleans = isinstance(left, bool) and isinstance(right, bool) and order in (operator.eq, operator.ne)
    return (numbers or texts or booleans) and order(left, right)


def _contains(left: Any, right: Any) -> bool:
    if isinstance(left, str):
        return isinstance(right, str) and right in left
    return isinstance(left, list) and any(_comparable(one, right, operator.eq) for one in left)
