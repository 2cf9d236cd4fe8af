"""A query for a Spark Connect server is parsed by a JVM of this machine, which ends afterwards."""

import pytest

from kdissect.spark.local_parser import parsed_here
from kdissect.spark.select_check import RestrictedQueryError, tables_of_plan
from kdissect.tables.schemas import TABLES

pytestmark = pytest.mark.spark


def test_a_query_is_checked_without_a_session() -> None:
    with parsed_here("SELECT count(*) FROM exchanges JOIN connections USING (connection)") as (jvm, plan):
        assert tables_of_plan(jvm, plan, TABLES) == {"exchanges", "connections"}
    with parsed_here("SELECT reflect('java.lang.System', 'exit', 1), '${env:PATH}'") as (jvm, plan):
        assert "${env:PATH}" in plan.toString()
        with pytest.raises(RestrictedQueryError, match="reflect"):
            tables_of_plan(jvm, plan, TABLES)


@pytest.mark.parametrize("query", ["SELEC 1", "SET x = 1", "ADD JAR 'x'"])
def test_a_command_is_no_query(query: str) -> None:
    with pytest.raises(ValueError, match=r"(?i)syntax"), parsed_here(query):
        pass
