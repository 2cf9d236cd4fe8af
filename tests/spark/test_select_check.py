"""A query reads the tables of the captures and does nothing else, as Spark's own parser sees it."""

import pytest

from kdissect.spark.queries import check_query
from kdissect.spark.session import Engine
from kdissect.tables.schemas import TABLES

pytestmark = pytest.mark.spark

HARMLESS = {
    "SELECT 1": "",
    "SELECT api_name, count(*) FROM exchanges GROUP BY ALL": "exchanges",
    "SELECT a, avg(x) FROM Exchanges e WHERE b LIKE 'x%' AND c RLIKE 'y' AND d NOT IN (1, 2) GROUP BY a "
    "HAVING count(*) > 2 ORDER BY a DESC NULLS LAST LIMIT 5 OFFSET 1": "exchanges",
    "WITH t AS (SELECT * FROM exchanges), u AS (SELECT * FROM t) SELECT t.*, row_number() OVER w FROM u t "
    "JOIN connections c ON t.connection = c.connection LEFT JOIN partitions USING (exchange) "
    "WINDOW w AS (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)":
        "connections exchanges partitions",
    "SELECT * FROM VALUES (1, 2), (3, upper('a')) AS t(a, b)": "",
    "SELECT * FROM range(10) PIVOT (count(*) FOR id IN (1 AS x, 2))": "",
    "SELECT explode(array(1, 2)), z FROM exchanges LATERAL VIEW explode(y) t AS z": "exchanges",
    "SELECT (SELECT max(x) FROM partitions), EXISTS (SELECT 1 FROM connections) FROM exchanges "
    "WHERE a IN (SELECT b FROM group_events) UNION ALL SELECT 1, true EXCEPT SELECT 2, false":
        "connections exchanges group_events partitions",
    "SELECT transform(array(1, 2), x -> x + 1), CASE WHEN a THEN 1 ELSE 2 END, CAST(a AS string), a::int, "
    "INTERVAL 1 DAY, current_timestamp, DATE '2020-01-01', b[1], c.d, -x, NOT y, x BETWEEN 1 AND 2, "
    "percentile_approx(x, 0.9) FILTER (WHERE y > 1), timestamp_seconds(time_ns / 1e9) "
    "FROM exchanges TABLESAMPLE (10 PERCENT)": "exchanges",
    "FROM exchanges |> WHERE a > 1 |> SELECT b |> AGGREGATE count(*) GROUP BY b": "exchanges",
    "SELECT * EXCEPT (a) FROM exchanges QUALIFY row_number() OVER (ORDER BY a) = 1": "exchanges",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t": "",
    "SELECT * FROM exchanges UNPIVOT (v FOR n IN (a, b))": "exchanges",
    "SELECT trim(BOTH 'a' FROM b), extract(YEAR FROM c), substring(a FROM 1 FOR 2), position('a' IN b), "
    "overlay(a PLACING 'b' FROM 1), timestampadd(DAY, 1, x), try_cast(a AS int), struct(a, b), "
    "first_value(a) IGNORE NULLS OVER (ORDER BY b), 'a' COLLATE UTF8_LCASE "
    "FROM exchanges, LATERAL (SELECT 1)": "exchanges",
    "SELECT /*+ BROADCAST(c) */ DISTINCT count(*) FROM exchanges JOIN connections c USING (connection) "
    "GROUP BY ROLLUP (a), GROUPING SETS ((a), (b))": "connections exchanges",
    "TABLE transaction_events": "transaction_events",
    "VALUES (1), (2)": "",
    "SELECT percentile(latency_ns, 0.99) / 1e6, round(sum(bytes) / 1e6, 1), a <=> b, a & b | c ^ ~d, a % 2, "
    "a DIV 2, a || b, a IS NOT DISTINCT FROM b, a ILIKE ANY ('x', 'y'), count(DISTINCT a), if(a, 1, 2) "
    "FROM exchanges": "exchanges",
}  # fmt: skip

HARMFUL = {
    "SELECT TRANSFORM(1) USING '/usr/bin/id'": "ScriptTransformation",
    "FROM exchanges MAP client_id USING 'sh' AS x": "ScriptTransformation",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME')": "`reflect`",
    "SELECT java_method('java.lang.Runtime', 'getRuntime')": "`java_method`",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME')": "`try_reflect`",
    "SELECT system.builtin.reflect('java.lang.System', 'getenv', 'HOME')": "`system.builtin.reflect`",
    "SELECT IDENTIFIER('re' || 'flect')('java.lang.System', 'getenv')": "ExpressionWithUnresolvedIdentifier",
    "SELECT * FROM VALUES (reflect('java.lang.System', 'getenv', 'HOME'))": "`reflect`",
    "SELECT row_number() OVER w FROM exchanges WINDOW w AS (ORDER BY reflect('a', 'b'))": "`reflect`",
    "SELECT * FROM exchanges LATERAL VIEW reflect('a', 'b') t AS z": "`reflect`",
    "SELECT transform(array(1), x -> reflect('a', 'b'))": "`reflect`",
    "SELECT (SELECT reflect('a', 'b'))": "`reflect`",
    "WITH t AS (SELECT reflect('a', 'b')) SELECT 1": "`reflect`",
    "SELECT 1 ORDER BY reflect('a', 'b')": "`reflect`",
    "SELECT count(*) FILTER (WHERE reflect('a', 'b')) FROM exchanges": "`reflect`",
    "SELECT * FROM exchanges PIVOT (count(*) FOR reflect IN (reflect('a', 'b')))": "`reflect`",
    "SELECT * FROM text.`/etc/passwd`": "`text./etc/passwd` is not a table",
    "SELECT * FROM csv.`/etc/passwd` AS exchanges": "is not a table",
    "SELECT * FROM exchanges WHERE a IN (SELECT value FROM text.`/etc/passwd`)": "is not a table",
    "SELECT * FROM IDENTIFIER('text.`/etc/passwd`')": "is not a table",
    "SELECT * FROM IDENTIFIER('te' || 'xt.`/etc/passwd`')": "PlanWithUnresolvedIdentifier",
    "SELECT * FROM elsewhere": "`elsewhere` cannot be found",
    "SELECT * FROM hidden, (WITH hidden AS (SELECT 1) SELECT * FROM hidden)": "`hidden` cannot be found",
    "WITH hidden AS (SELECT * FROM hidden) SELECT * FROM hidden": "`hidden` cannot be found",
    "SELECT * FROM python_worker_logs()": "`python_worker_logs`",
    "SELECT * FROM STREAM exchanges": "NamedStreamingRelation",
    "SELECT from_protobuf(a, 'm', '/etc/passwd')": "`from_protobuf`",
    "SELECT xpath('<a/>', 'a')": "`xpath`",
    "SELECT input_file_name()": "`input_file_name`",
    "SELECT current_user()": "`current_user`",
    "SELECT current_user": "asks for current_user",
    "CREATE TABLE t LOCATION '/tmp/t' AS SELECT 1": "CreateTable",
    "CREATE TEMPORARY VIEW v USING text OPTIONS (path '/etc/passwd')": "CreateTempViewUsing",
    "CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'": "CreateFunction",
    "INSERT OVERWRITE DIRECTORY '/tmp/x' USING text SELECT 'a'": "InsertIntoDir",
    "FROM exchanges INSERT OVERWRITE DIRECTORY '/tmp/x' USING text SELECT client_id": "InsertIntoDir",
    "SET spark.sql.variable.substitute=true": "SetCommand",
    "ADD JAR '/tmp/x.jar'": "AddJarsCommand",
    "EXECUTE IMMEDIATE 'SELECT 1'": "UnresolvedExecuteImmediate",
    "BEGIN SELECT 1; END": "CompoundBody",
    "DECLARE x = 1": "CreateVariable",
    "SHOW TABLES": "ShowTables",
    "EXPLAIN SELECT 1": "ExplainCommand",
    "CACHE TABLE exchanges": "CacheTable",
    "SELECT * FROM exchanges VERSION AS OF 1": "RelationTimeTravel",
    "SELECT :x": "NamedParameter",
    "SELEC 1": "Syntax error",
    "SELECT 1; DROP TABLE exchanges": "Syntax error",
}


@pytest.mark.parametrize("query", HARMLESS)
def test_a_select_over_the_tables_is_taken(engine: Engine, query: str) -> None:
    assert check_query(engine.session(), query, TABLES) == set(HARMLESS[query].split())


@pytest.mark.parametrize("query", HARMFUL)
def test_everything_else_is_refused(engine: Engine, query: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        check_query(engine.session(), query, TABLES)
    assert HARMFUL[query] in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_query_that_takes_long_to_check_is_refused(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kdissect.spark.select_check.MOST_NODES", 20)
    with pytest.raises(ValueError, match="too long"):
        check_query(engine.session(), f"SELECT {' + '.join(['1'] * 30)}", TABLES)


def test_variables_of_the_environment_are_not_put_into_a_query(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.session()
    check_query(session, "SELECT 1", TABLES)
    (row,) = session.sql("SELECT '${env:PATH} ${system:java.home}' AS text").collect()
    assert row["text"] == "${env:PATH} ${system:java.home}"
