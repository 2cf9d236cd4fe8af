"""The grammar of `--fail-on`: conditions on the result of a command that make a script's run fail.

    condition = statement | limit
    statement = name ["=" value]           any=critical, slow_broker=warning, diverged
    limit     = figure operator amount     produce.p99>50ms, fetch.errors>1%, p99_ratio>1.5
    operator  = ">" | ">=" | "<" | "<="
    amount    = number [unit]              ns, us, µs, ms, s, m, h or %

Several conditions are separated by commas, or the option is repeated; each of them counts. A `Vocabulary`
knows the statements and figures of one kind of result, such as a report or the comparison of a replay, and
plugs into the grammar. A percentage is a part of 1: `0.1%` and `0.001` are the same amount.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Generic, NamedTuple, Protocol, TypeVar

from kdissect.errors import UsageError

Result = TypeVar("Result")
Result_contra = TypeVar("Result_contra", contravariant=True)


class Unit(Enum):
    """Unit in which the amount of a limit is written."""

    NUMBER = "number"
    PERCENT = "percentage"
    DURATION = "duration"


class Measured(NamedTuple):
    """The value of a figure and its text; nanoseconds for a duration, a part of 1 for a percentage."""

    value: float
    text: str


Figure = Callable[[Result_contra], Measured | None]
"""Measures a figure of a result; None if the result does not have it, which meets no limit."""

Statement = Callable[[Result_contra], list[str]]
"""Returns one sentence for each fact of a result that makes the statement true."""


class Vocabulary(Protocol[Result_contra]):
    """The statements and figures that conditions on one kind of result may name."""

    @property
    def examples(self) -> str:
        """Return a few conditions for error messages, such as `any=critical, produce.p99>50ms`."""
        ...

    def figure(self, name: str, unit: Unit) -> Figure[Result_contra]:
        """Return a figure, to be compared with amounts in `unit`. Raise UsageError if there is none."""
        ...

    def statement(self, name: str, value: str | None) -> Statement[Result_contra]:
        """Return a statement. Raise UsageError if there is none with this name or value."""
        ...


class Operator(NamedTuple):
    """A comparison and how a sentence words it."""

    compare: Callable[[float, float], bool]
    words: str


OPERATORS: Mapping[str, Operator] = {
    ">=": Operator(ge, "at least"),
    "<=": Operator(le, "at most"),
    ">": Operator(gt, "more than"),
    "<": Operator(lt, "less than"),
}
NS_OF_UNIT = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
STATEMENT = re.compile(r"(\w+)(?:\s*=\s*(\w+))?")
LIMIT = re.compile(r"([\w.]+?)\s*(>=|<=|>|<)\s*(\d{1,15}(?:\.\d{1,15})?)\s*(ns|us|µs|ms|s|m|h|%)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Condition(Generic[Result]):
    """One condition; `met` returns a sentence for each fact of a result that meets it."""

    text: str
    met: Statement[Result]


def conditions(texts: Iterable[str], vocabulary: Vocabulary[Result]) -> tuple[Condition[Result], ...]:
    """Return the conditions that the values of `--fail-on` hold. Raise UsageError for one that cannot be."""
    try:
        return tuple(_condition(part, vocabulary) for text in texts for part in _parts(text))
    except UsageError as error:
        raise UsageError(f"--fail-on: {error}") from None


def _parts(text: str) -> Iterator[str]:
    """Yield the conditions between commas. A comma at the end adds none; an empty text is yielded itself."""
    parts = [part.strip() for part in text.split(",")]
    yield from (part for part in parts if part) if any(parts) else [text]


def _condition(text: str, vocabulary: Vocabulary[Result]) -> Condition[Result]:
    if match := LIMIT.fullmatch(text):
        return Condition(text, _limit(*match.groups(), vocabulary=vocabulary))
    if match := STATEMENT.fullmatch(text):
        return Condition(text, vocabulary.statement(match[1], match[2]))
    raise UsageError(f"{text!r} is not a condition; examples: {vocabulary.examples}")


def _limit(
    name: str, operator: str, number: str, unit: str | None, *, vocabulary: Vocabulary[Result]
) -> Statement[Result]:
    figure = vocabulary.figure(name, _unit(unit))
    limit = float(Fraction(number) * _factor(unit))
    comparison = OPERATORS[operator]

    def met(result: Result) -> list[str]:
        measured = figure(result)
        if measured is None or not comparison.compare(measured.value, limit):
            return []
        return [f"{name} is {measured.text}, {comparison.words} {number}{unit or ''}"]

    return met


def _unit(unit: str | None) -> Unit:
    if unit is None:
        return Unit.NUMBER
    return Unit.PERCENT if unit == "%" else Unit.DURATION


def _factor(unit: str | None) -> Fraction:
    if unit is None:
        return Fraction(1)
    return Fraction(1, 100) if unit == "%" else Fraction(NS_OF_UNIT[unit])


def plain_number(value: float, unit: Unit) -> Measured:
    """Return a number or a part of 1 with its text: 0.25, or 25% where the limit is a percentage."""
    return Measured(value, f"{100 * value:.4g}%" if unit is Unit.PERCENT else f"{value:.4g}")


@dataclass(frozen=True, slots=True)
class TableVocabulary(Generic[Result]):
    """A vocabulary from two tables: figures that are numbers or parts of 1, statements without a value."""

    figures: Mapping[str, Callable[[Result], float]]
    statements: Mapping[str, Statement[Result]]

    @property
    def examples(self) -> str:
        """Return all conditions that there are."""
        return ", ".join((*(f"{name}>NUMBER" for name in self.figures), *self.statements))

    def figure(self, name: str, unit: Unit) -> Figure[Result]:
        """Return a figure. Raise UsageError for an unknown name, and for a duration."""
        if name not in self.figures:
            raise UsageError(f"{name!r} is not a figure; there are {', '.join(self.figures)}")
        if unit is Unit.DURATION:
            raise UsageError(f"{name} is compared with a number or a percentage such as 1%")
        measure = self.figures[name]
        return lambda result: plain_number(measure(result), unit)

    def statement(self, name: str, value: str | None) -> Statement[Result]:
        """Return a statement. Raise UsageError for an unknown name, and for a value."""
        if name not in self.statements or value is not None:
            raise UsageError(
                f"{name if value is None else f'{name}={value}'!r} is not a condition; examples: "
                f"{self.examples}"
            )
        return self.statements[name]
