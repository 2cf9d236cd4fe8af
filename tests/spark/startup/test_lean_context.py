"""Parts that a local Spark leaves out: only with the shortcut, and only in what concerns this run."""

from typing import cast

import pytest
from pyspark import SparkContext

from kdissect.spark.startup.lean_context import (
    NO_SCOPES,
    UNREAD_COUNTERS,
    lean_environment,
    lean_settings,
    leave_out_scopes,
)
from kdissect.spark.startup.switch import STARTUP_VARIABLE


class Properties:
    """A context of which only its properties are known."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - the name is Spark's
        self.set[name] = value


@pytest.mark.parametrize(
    ("switch", "environment", "properties"),
    [("", {"SPARK_LOCAL_IP": "127.0.0.1"}, {NO_SCOPES: "true"}), ("-lean_context", {}, {})],
)
def test_the_switch_decides(
    switch: str, environment: dict[str, str], properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTUP_VARIABLE, switch)
    context = Properties()
    leave_out_scopes(cast("SparkContext", context))
    assert (lean_environment(), context.set) == (environment, properties)
    assert set(lean_settings()) == (set() if switch else set(UNREAD_COUNTERS))
