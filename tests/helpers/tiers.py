"""Parameters of a test of which a few are enough for the quick tier (tests/conftest.py)."""

from collections.abc import Iterable
from typing import Any

import pytest


def slow_after(count: int, values: Iterable[Any]) -> list[Any]:
    """Return parameters of `pytest.mark.parametrize`: the first `count` are quick, the others slow."""
    listed = list(values)
    return listed[:count] + [pytest.param(value, marks=pytest.mark.slow) for value in listed[count:]]
