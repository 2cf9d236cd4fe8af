"""The little capture that workers warm up on must exercise what real captures do."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kdissect
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.spark.startup.warmup import CAPTURES, warm_up
from tests.helpers.command import environment
from tests.helpers.kernel_kinds import INNER, KINDS

PACKAGE = Path(kdissect.__file__).parent

SELDOM_NEEDED = {  # small kernels that are compiled when they are first called
    "kdissect.exchanges.prescan.earliest_unfinished",
    "kdissect.slice.packet_match.read_headers",
    "kdissect.slice.packet_layers.find_ip_layers",  # a slice with other addresses
    "kdissect.slice.packet_layers.clear_extensions",  # and the same with IPv6
    "kdissect.streams.carry.state_value.list_nodes",  # a watch, between two batches
    "kdissect.tables.log_ends.renumber_ends",
    "kdissect.streams.memory_budget._add_up",  # connections that hold too much together
    "kdissect.streams.tls.decrypt_stage._let_go",  # connections that TLS protects
    "kdissect.streams.tls.decrypt_stage._list_chunks",
    "kdissect.protocol.records.crc32c._multiply",  # replay
}

ONLY_COMPILED = {  # this test does not compile: a dictionary takes its place
    "kdissect.streams.newest_rows.find_rows",
    "kdissect.streams.newest_rows.put_rows",
    "kdissect.tables.coded_columns.number_spans",
}

CALLED = """
import sys
called = set()
sys.setprofile(lambda frame, event, _: called.add((frame.f_globals.get("__name__"), frame.f_code.co_name)))
from kdissect.spark.startup.warmup import compile_for_many, warm_up
compile_for_many()
warm_up()
sys.setprofile(None)
print(*(f"{module}.{name}" for module, name in called if str(module).startswith("kdissect.")))
"""


def entrances() -> set[str]:
    """Kernels that are called from Python: what is compiled in its own right."""
    found, within = set(), set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {one.id for one in node.decorator_list if isinstance(one, ast.Name)}
                if names & KINDS - INNER:
                    found.add(f"{module}.{node.name}")
                if names & KINDS:
                    within |= {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return {name for name in found if name.rpartition(".")[2] not in within}


def test_it_has_requests_answers_partitions_and_records() -> None:
    summary = build_report(warm_up(), CaptureFacts())
    needed = {"ApiVersions", "Produce", "Fetch", "JoinGroup", "Heartbeat"}
    assert {api.api_name for api in summary.apis} > needed
    read = {use.api_name for topic in summary.topics for use in topic.uses if use.records}
    assert read == {"Produce", "Fetch"}
    assert summary.faults == ()


def test_it_is_small() -> None:
    assert all(path.stat().st_size < 20_000 for path in CAPTURES)


@pytest.mark.slow
def test_it_calls_every_kernel() -> None:
    """Check that the kernels compiled for later runs are those that later runs need."""
    called = subprocess.run(
        [sys.executable, "-P", "-c", CALLED],
        env=environment(KDISSECT_JIT="0"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert entrances() - set(called.stdout.split()) == SELDOM_NEEDED | ONLY_COMPILED
