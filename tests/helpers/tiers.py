"""Parameters of tests of which a few are enough: for the quick tier (tests/conftest.py), or for `.ci/run`."""

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

ALL = os.environ.get("KDISSECT_ALL") == "1"
Value = TypeVar("Value")


def spread(values: Iterable[Value], count: int) -> list[Value]:
    """Return so many of the values, evenly spread from the first on; with KDISSECT_ALL=1 all of them."""
    listed = list(values)
    return listed if ALL else listed[:: -(-len(listed) // count)]


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return parameters of `pytest.mark.parametrize`: the first `count` are quick, the others slow."""
    return _marked_after(count, values, pytest.mark.slow)


def thorough_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return parameters: the first `count` are tried in every run, the others with KDISSECT_ALL=1.

    A tuple has a value for each name, as in `parametrize`.
    """
    return _marked_after(count, values, pytest.mark.thorough)


def _marked_after(count: int, values: Iterable[Any], mark: pytest.MarkDecorator) -> list[Any]:
    listed = list(values)
    return listed[:count] + [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=mark)
        for value in listed[count:]
    ]
