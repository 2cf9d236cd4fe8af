"""Slices of every recorded capture: equal rows, the packets and streams that tshark counts, comments."""

import json
import re
from collections.abc import Iterable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.main import main
from kdissect.cli.options import TABLES
from kdissect.spark import tasks
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import keys_for
from tests.helpers.tiers import spread
from tests.slice.sliced_capture import CAPTURES, PLACE, make_slice, needs_tshark, rows, tshark

EVERY = [*spread(sorted(CAPTURES.glob("*.pcap*")), 8), *spread(sorted(CAPTURES.glob("incidents/*.zst")), 4)]
SHARE = 3  # one connection of so many is chosen
SUMMARY = re.compile(r"([\d,]+) packets? \(.*\) of ([\d,]+) exchanges? on ([\d,]+) connections?")
pytestmark = pytest.mark.slow


Rows: TypeAlias = list[tuple[int, str]]
"""The connection of each row of a table, and the row without its place as JSON."""


def tables(path: Path, scratch: Path) -> dict[str, Rows]:
    """Return the rows of all public tables, by table."""
    scratch.mkdir(exist_ok=True)
    found = index_captures(open_inputs([str(path)], str(scratch)).files, 2 << 20)
    ordinals = (pa.record_batch({"split": [split.index]}) for split in found.splits)
    pieces = tasks.scan_step(ordinals, found.splits, ())
    options = TableOptions(keys=keys_for(None, found.files))
    made: dict[str, Rows] = {name: [] for name in TABLES}
    for name, batch in tasks.tables_step(pieces, found.splits, TABLES, options):
        if name in made:
            made[name] += ((row["connection"], _text(row)) for row in batch.to_pylist())
    return made


def _text(row: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if name not in PLACE}, default=str)


def of(chosen: Iterable[int], found: dict[str, Rows]) -> dict[str, list[str]]:
    """Return the rows of connections, sorted."""
    numbers = set(chosen)
    return {
        name: sorted(text for connection, text in rows if connection in numbers)
        for name, rows in found.items()
    }


def connections_of(found: dict[str, Rows]) -> list[int]:
    """Return every third connection that has an exchange."""
    return sorted({connection for connection, _ in found["exchanges"]})[::SHARE]


class Sliced(NamedTuple):
    """A slice of a third of a capture's connections."""

    capture: Path
    whole: dict[str, Rows]  # of the capture
    chosen: list[int]
    path: Path
    packets: int  # by the summary of the command, as the next two
    exchanges: int
    connections: int


@pytest.fixture(scope="module", params=EVERY, ids=lambda path: path.name.split(".")[0])
def sliced(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sliced:
    folder = tmp_path_factory.mktemp("sliced")
    whole = tables(request.param, folder / "whole")
    chosen = connections_of(whole)
    options = [text for number in chosen for text in ("--connection", str(number))]
    path = folder / "slice.pcapng"
    with redirect_stderr(StringIO()) as errors:
        assert main(["slice", str(request.param), *options, "--with-secrets", "-o", str(path)]) == 0
    summary = SUMMARY.search(errors.getvalue())
    assert summary is not None
    return Sliced(
        request.param, whole, chosen, path, *(int(text.replace(",", "")) for text in summary.groups())
    )


def test_rows_and_counts(sliced: Sliced, tmp_path: Path) -> None:
    own = of(sliced.chosen, sliced.whole)
    assert sliced.connections == len(sliced.chosen)
    assert sliced.exchanges >= len(own["exchanges"])  # raw SASL tokens are no rows of the table
    assert of(sliced.chosen, tables(sliced.path, tmp_path / "again")) == own


@needs_tshark
def test_tshark_counts_the_same(sliced: Sliced, capfd: pytest.CaptureFixture[str]) -> None:
    fields = ("-T", "fields", "-E", "aggregator=|", "-e", "tcp.stream", "-e", "frame.comment")
    lines = [line.split("\t") for line in tshark(sliced.path, "--disable-protocol", "kafka", *fields)]
    assert len(lines) == sliced.packets
    assert len({line[0] for line in lines}) == sliced.connections
    comments = [text for line in lines for text in line[1].split("|") if text]
    more = sum(int(text.split()[0]) for text in comments if text.endswith("begin in this packet"))
    responses = sum(text.startswith("Response to ") for text in comments)
    chosen = set(sliced.chosen)
    own = [one for one in rows(capfd, sliced.capture) if one["connection"] in chosen]
    messages = sum((one["request"] is not None) + (one["response"] is not None) for one in own)
    assert len(comments) - bool(more) <= messages
    if not more:
        assert len(comments) == messages
        assert responses == sum(one["response"] is not None for one in own)


def test_the_rows_of_several_packed_captures_are_those_of_each(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    sources = [CAPTURES / "old-broker.pcap", CAPTURES / "incidents" / "broker-stopped-1.pcapng.zst",
               CAPTURES / "tls.pcapng"]  # fmt: skip
    path = make_slice(tmp_path, *sources, "--api", "Metadata", "--with-secrets")
    chosen = rows(capfd, *sources, "--api", "Metadata")
    numbers = {one["connection"] for one in chosen}
    again = of(numbers, tables(path, tmp_path / "again"))
    parts = [of(numbers, tables(source, tmp_path / source.name)) for source in sources]
    assert all(part["exchanges"] for part in parts)
    assert again == {name: sorted(row for part in parts for row in part[name]) for name in TABLES}
