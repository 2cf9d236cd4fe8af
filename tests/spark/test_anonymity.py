"""After names are replaced no output has a name of the capture, and everything else is the same."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from kdissect.capture.index.splits import Split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts, ProfileBy
from kdissect.report.partials import from_arrow
from kdissect.report.render.json import to_json
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from kdissect.spark import tasks
from kdissect.spark.figures_step import summary_step
from kdissect.spark.task_tables import DEFAULT, TableOptions
from kdissect.tables import schemas as schemas_module
from kdissect.tables.anonymize import (
    KINDS,
    LEFT_OUT,
    OWN_TOPIC_IDS,
    OWN_TOPICS,
    Pseudonyms,
)
from kdissect.tables.column import NO_NAME
from kdissect.tables.filters import Filter
from kdissect.tables.schemas import COLUMNS, RECORD_COLUMNS, TABLES
from tests.spark.conftest import CAPTURES

SplitsOf = Callable[..., tuple[Split, ...]]
Rows = dict[str, list[dict[str, Any]]]


NO_NAMES = {"kind", "outcome", "replicas", "isr"} | {
    column.name
    for columns in (*COLUMNS.values(), RECORD_COLUMNS)
    for column in columns
    if column.names == NO_NAME
}
"""Text of the tables that Kafka, TLS or kdissect chose, not whoever runs the cluster; node ids stay, too."""


def test_every_column_of_text_is_either_a_name_or_known_not_to_be_one() -> None:
    schemas = {
        name.lower(): schema for name, schema in vars(schemas_module).items() if isinstance(schema, pa.Schema)
    }
    assert {"connections", "exchanges", "partitions", "names", "brokers"} <= schemas.keys()
    for name, schema in schemas.items():
        texts = {field.name for field in schema if field.type == pa.string()}
        assert texts <= KINDS.get(name, {}).keys() | set(LEFT_OUT.get(name, ())) | NO_NAMES, name


def pieces_of(splits: tuple[Split, ...]) -> list[pa.RecordBatch]:
    return [
        batch
        for split in splits
        for batch in tasks.scan_step([pa.record_batch({"split": [split.index]})], splits, ())
    ]


def rows_of(splits: tuple[Split, ...], treatment: TableOptions) -> Rows:
    found: Rows = {name: [] for name in (*TABLES, "names")}
    for name, batch in tasks.tables_step(pieces_of(splits), splits, list(TABLES), treatment):
        found[name] += batch.to_pylist()
    return found


def names_in(rows: Rows) -> Iterator[str]:
    """Return every name that must not be told."""
    for table, columns in KINDS.items():
        for row in rows.get(table, ()):
            yield from (row[column] for column in columns if row[column] and column != "sasl_mechanism")


def outputs(splits: tuple[Split, ...], treatment: TableOptions, name: str) -> Iterator[tuple[str, str]]:
    """Return everything that is told, by the name of where it is told."""
    pieces = list(summary_step(pieces_of(splits), splits, treatment))
    facts = CaptureFacts(files=(name,))
    for by in ProfileBy:
        summary = build_report(from_arrow(tasks.partials_only(pieces)), facts, by=by)
        yield f"text by {by}", render(summary, Terminal(200, whole=True))
    yield "JSON", to_json(summary)
    yield "tables", json.dumps(rows_of(splits, treatment))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["broker-restart.pcapng", "transactions.pcapng", "rebalances.pcapng"])
def test_no_name_is_told(splits_of: SplitsOf, name: str) -> None:
    splits = splits_of(CAPTURES / name)
    secret = set(names_in(rows_of(splits, DEFAULT))) - OWN_TOPICS - OWN_TOPIC_IDS
    assert len(secret) > 10
    pseudonyms = Pseudonyms.new()
    words = re.compile(
        rf"(?<![\w-])(?:{'|'.join(map(re.escape, sorted(secret, key=len, reverse=True)))})(?![\w-])"
    )
    hidden = pseudonyms.name("capture", str(CAPTURES / name)) or ""
    assert any(words.search(text) for _, text in outputs(splits, DEFAULT, str(CAPTURES / name)))
    for place, text in outputs(splits, TableOptions(pseudonyms=pseudonyms), hidden):
        assert not (found := words.search(text)), (
            place,
            found and text[found.start() - 80 : found.end() + 80],
        )


def test_what_belongs_together_still_does(splits_of: SplitsOf) -> None:
    """The report is the same but for names: same rows, same figures, same findings."""
    splits = splits_of(CAPTURES / "broker-restart.pcapng")

    def figures(treatment: TableOptions) -> Any:
        pieces = summary_step(pieces_of(splits), splits, treatment)
        summary = build_report(from_arrow(tasks.partials_only(pieces)), CaptureFacts())
        return (
            [replace(row.figures) for row in summary.clients],
            [(row.node_id, row.figures) for row in summary.brokers],
            [
                (topic.resolved, topic.partitions, [use.exchanges for use in topic.uses])
                for topic in summary.topics
            ],
            sorted((finding.name, finding.title, finding.count) for finding in summary.findings),
        )

    assert figures(DEFAULT) == figures(TableOptions(pseudonyms=Pseudonyms.new()))


def test_filters_go_by_the_real_names(splits_of: SplitsOf) -> None:
    splits = splits_of(CAPTURES / "broker-restart.pcapng")
    wanted = Filter(clients=("orders-aio",))
    plain, hidden = (
        rows_of(splits, TableOptions(wanted, pseudonyms))["exchanges"]
        for pseudonyms in (None, Pseudonyms.new())
    )
    assert len(plain) == len(hidden) > 0
    assert {row["client_id"] for row in plain} == {"orders-aio"}
    assert len({row["client_id"] for row in hidden}) == 1
