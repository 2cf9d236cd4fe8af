"""The class path of a local run: without what only clusters, Hive and other systems need."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from kdissect.spark.startup.jvm import spark_jars
from kdissect.spark.startup.short_class_path import SQL_ONLY, UNUSED, local_jars


def kept(*names: str, queries: bool = True) -> list[str]:
    return [jar.name for jar in local_jars([Path("/jars") / name for name in names], queries)]


def test_parts_for_clusters_are_left_out() -> None:
    assert kept("hive-exec-2.3.jar", "spark-core_2.13.jar", "spark-yarn_2.13.jar", "py4j-0.10.jar") == [
        "spark-core_2.13.jar",
        "py4j-0.10.jar",
    ]


def test_queries_need_more() -> None:
    jars = ("spark-core_2.13.jar", "spark-sql_2.13.jar", "parquet-column-1.jar", "hive-exec-2.3.jar")
    assert kept(*jars) == [*jars[:3]]
    assert kept(*jars, queries=False) == ["spark-core_2.13.jar"]


def test_native_code_of_other_systems_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = ("netty-native-epoll-4.2-linux-x86_64.jar", "netty-native-kqueue-4.2-osx-x86_64.jar")
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(sysname="Linux"))
    assert kept(*jars) == ["netty-native-epoll-4.2-linux-x86_64.jar"]
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(sysname="Darwin"))
    assert kept(*jars) == ["netty-native-kqueue-4.2-osx-x86_64.jar"]


def test_every_name_is_that_of_a_jar_of_the_installed_spark() -> None:
    names = [jar.name for jar in spark_jars()]
    assert [start for start in UNUSED + SQL_ONLY if not any(name.startswith(start) for name in names)] == []
