"""Parts that a local Spark leaves out: only with the shortcut, and only in what concerns this run."""

from typing import cast

import pytest
from pyspark import SparkContext

from kdissect.spark.startup.lean_context import (
    NO_LOG,
    NO_SCOPES,
    UNREAD_COUNTERS,
    lean_environment,
    lean_options,
    lean_settings,
    leave_out_scopes,
)
from kdissect.startup_switch import STARTUP_VARIABLE


class Properties:
    """A context of which only its properties are known."""

    def __init__(self) -> None:
        self.set: dict[str, str] = {}

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802 - the name is Spark's
        self.set[name] = value


@pytest.mark.parametrize(
    ("switch", "environment", "properties"),
    [
        ("", {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_USER": "kdissect"}, {NO_SCOPES: "true"}),
        ("-lean_context", {}, {}),
    ],
)
def test_the_switch_decides(
    switch: str, environment: dict[str, str], properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STARTUP_VARIABLE, switch)
    context = Properties()
    leave_out_scopes(cast("SparkContext", context))
    assert (lean_environment(), context.set) == (environment, properties)
    assert lean_options() == (() if switch else NO_LOG)
    assert set(lean_settings()) == (set() if switch else set(UNREAD_COUNTERS))


def test_whoever_looks_for_a_fault_gets_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lean_options() == NO_LOG
    monkeypatch.setenv("KDISSECT_DEBUG", "1")
    assert lean_options() == ()
