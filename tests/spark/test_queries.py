"""SQL over the tables against plain loops over exported rows, and wrong queries in one sentence."""

from collections import Counter
from collections.abc import Callable

import pytest
from py4j import java_gateway, protocol
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import install_exception_handler

from kdissect.capture.index.splits import Split
from kdissect.cli.sql import distinct
from kdissect.spark import table_jobs
from kdissect.spark.analysis_work import AnalysisWork
from kdissect.spark.queries import (
    COMPILED_FROM,
    COMPILING,
    check_syntax,
    compile_query,
    parsed_here,
    run_query,
)
from kdissect.spark.select_check import RestrictedQueryError, tables_of_plan
from kdissect.spark.session import Engine
from kdissect.tables.schemas import TABLES
from tests.helpers.tiers import thorough_after
from tests.spark.conftest import CAPTURES, Tables

pytestmark = pytest.mark.spark

CAPTURE = CAPTURES / "transactions.pcapng"
JOIN = """
    SELECT c.client_id, p.topic, sum(p.records) AS records
    FROM partitions p JOIN connections c USING (connection)
    WHERE p.api_key = 0 GROUP BY ALL ORDER BY ALL
"""


def test_a_join_is_what_the_rows_add_up_to(
    engine: Engine, splits_of: Callable[..., tuple[Split, ...]], whole: Callable[..., Tables]
) -> None:
    tables = table_jobs.tables(
        engine.session(), AnalysisWork(splits_of(CAPTURE), partitions=3), ["connections", "partitions"]
    )
    found = [tuple(row) for row in run_query(engine.session(), tables, JOIN).collect()]
    rows = {name: table.to_pylist() for name, table in whole(CAPTURE).items()}
    clients = {row["connection"]: row["client_id"] for row in rows["connections"]}
    expected: Counter[tuple[str, str]] = Counter()
    for row in rows["partitions"]:
        if row["api_key"] == 0:
            expected[clients[row["connection"]], row["topic"]] += row["records"]
    assert len(found) > 2
    assert found == sorted((*key, count) for key, count in expected.items())


def test_a_compiled_query_returns_the_same(
    engine: Engine, splits_of: Callable[..., tuple[Split, ...]]
) -> None:
    session = engine.session().newSession()
    tables = table_jobs.tables(session, AnalysisWork(splits_of(CAPTURE)), ["connections", "partitions"])
    compile_query(session, COMPILED_FROM - 1)
    assert not COMPILING.items() <= {name: session.conf.get(name) for name in COMPILING}.items()
    interpreted = run_query(session, tables, JOIN)
    plans = [interpreted._jdf.queryExecution().executedPlan().toString()]
    rows = interpreted.collect()
    compile_query(session, COMPILED_FROM)
    compiled = run_query(session, tables, JOIN)
    plans.append(compiled._jdf.queryExecution().executedPlan().toString())
    assert ["*(1)" in plan for plan in plans] == [False, True]
    assert compiled.collect() == rows


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT", "Syntax error"),
        ("SELECT nothing FROM range(1)", "`nothing` cannot be resolved"),
        ("SELECT * FROM elsewhere", "`elsewhere` cannot be found"),
    ],
)
def test_what_is_wrong_is_one_sentence(engine: Engine, query: str, words: str) -> None:
    def ask() -> None:
        check_syntax(engine.session(), query)
        run_query(engine.session(), {}, query)

    with pytest.raises(ValueError, match="wrong SQL: ") as raised:
        ask()
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)


def test_column_names_stay_apart() -> None:
    assert distinct(["a", "b", "a", "a_2", "a"]) == ["a", "b", "a_2", "a_2_2", "a_3"]


def test_a_query_is_checked_without_a_session() -> None:
    with parsed_here("SELECT count(*) FROM exchanges JOIN connections USING (connection)") as (jvm, plan):
        assert tables_of_plan(jvm, plan, TABLES) == {"exchanges", "connections"}
    with parsed_here("SELECT reflect('java.lang.System', 'exit', 1), '${env:PATH}'") as (jvm, plan):
        assert "${env:PATH}" in plan.toString()
        with pytest.raises(RestrictedQueryError, match="reflect"):
            tables_of_plan(jvm, plan, TABLES)


@pytest.mark.parametrize("query", thorough_after(1, ["ADD JAR 'x'", "SELEC 1", "SET x = 1"]))
def test_a_command_is_no_query(query: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)syntax"), parsed_here(query):
        pass


def test_a_command_is_no_query_after_a_session_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    install_exception_handler()
    translated = java_gateway.get_return_value
    with pytest.raises(ValueError, match=r"(?i)syntax"), parsed_here("SELEC 1"):
        pass
    assert java_gateway.get_return_value is translated
