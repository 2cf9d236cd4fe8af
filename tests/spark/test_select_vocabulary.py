"""Names that a query may use exist in Spark, and none of them leaves the tables."""

import re

import pytest

from kdissect.spark.select_vocabulary import EXPRESSIONS, FUNCTIONS, PLAN_NODES, TABLE_FUNCTIONS
from kdissect.spark.session import Engine

REACHING_OUT = re.compile(
    r"reflect|java_|input_file|avro|protobuf|xpath|xml|user|catalog|schema$|database|_logs|path"
)


def test_no_function_reaches_out_by_its_name() -> None:
    harmless = {"collations", "current_date"}
    assert not [name for name in (FUNCTIONS | TABLE_FUNCTIONS) - harmless if REACHING_OUT.search(name)]


def test_no_node_runs_commands() -> None:
    commands = re.compile("Command|Script|Insert|Create[^N]|Set")
    assert [name for name in PLAN_NODES | EXPRESSIONS if commands.search(name)] == ["GroupingSets"]


@pytest.mark.spark
def test_the_functions_exist(engine: Engine) -> None:
    known = {
        row["function"].rpartition(".")[2] for row in engine.session().sql("SHOW ALL FUNCTIONS").collect()
    }
    assert known >= FUNCTIONS | TABLE_FUNCTIONS - {"python_worker_logs"}
