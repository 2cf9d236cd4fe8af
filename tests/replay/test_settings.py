"""`replay.settings`: values that no test of a run looks at."""

from __future__ import annotations

from kdissect.exchanges.filter import ExchangeFilter
from kdissect.replay.settings import Credentials, ReplaySettings


def test_without_filters_everything_is_selected() -> None:
    assert ReplaySettings((("127.0.0.1", 9092),)).filter(123) == ExchangeFilter()


def test_a_password_is_not_shown() -> None:
    assert "hunter2" not in repr(Credentials("PLAIN", "user", "hunter2"))
