"""The reader of one public table of captures (see `datasource`): pass one plans, pass two reads.

Each partition gets the descriptors of some connections, a few bytes for each packet, and reads payload by
offset from the captures, which every worker must see under the same path. Topic ids get names from the whole
capture: for the table `partitions` planning goes through pass two once to learn them.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kdissect.capture.index.index import SPLIT_BYTES, index_captures
from kdissect.capture.index.sampling import take_sample
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.spark import tasks
from kdissect.spark.arrow_ipc import from_blob, pieces_blob
from kdissect.spark.partitioning import partition_buckets
from kdissect.spark.task_tables import TableOptions
from kdissect.streams.tls.keylog import (
    NO_KEYS,
    KeyLog,
    keys_for,
)

PARTITION_BYTES = 32 << 20  # capture bytes to a partition
MOST_PARTITIONS = 256


@dataclass
class ConnectionGroup(InputPartition):
    """Some connections: their descriptors as Arrow IPC streams, and what it takes to dissect them."""

    splits: tuple[Split, ...]
    pieces: list[bytes]
    names: Mapping[str, str] = field(default_factory=dict)
    keys: KeyLog = NO_KEYS


class CaptureReader(DataSourceReader):
    """Plans with pass one, reads with pass two."""

    def __init__(self, table: str, path: str, ports: Sequence[int], keylog: str | None = None) -> None:
        self.table, self.path, self.ports, self.keylog = table, path, tuple(ports), keylog

    def partitions(self) -> Sequence[InputPartition]:
        """Return groups of connections of the scanned captures. Raise ValueError for compressed files."""
        with tempfile.TemporaryDirectory(prefix="kdissect-") as spool:
            inputs = open_inputs([self.path], spool)
            if any(file.spooled for file in inputs.files):
                raise ValueError(
                    f"{self.path} is compressed: unpack it, or use kdissect.load_tables(spark, path)"
                )
            index = index_captures(inputs.files, SPLIT_BYTES)
            splits, keys = index.splits, keys_for(self.keylog, index.files)
        sample = take_sample(splits, self.ports)
        count = max(1, min(-(-sample.bytes // PARTITION_BYTES), MOST_PARTITIONS))
        of_bucket = partition_buckets(sample, count).of_bucket
        parts: list[list[bytes]] = [[] for _ in range(count)]
        for split in splits:
            for pieces in tasks.scan_step([pa.record_batch({"split": [split.index]})], splits, self.ports):
                for number, rows in tasks.split_by_partition(pieces, of_bucket):
                    parts[number].append(pieces_blob(rows))
        names: dict[str, str] = {}
        if self.table == "partitions":
            found = (batch for part in parts for batch in tasks.names_step(_pieces(part), splits, keys))
            names = tasks.topic_names(pair for batch in found for pair in tasks.name_pairs(batch))
        return [ConnectionGroup(splits, part, names, keys) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one group of connections."""
        assert isinstance(partition, ConnectionGroup)
        treatment = TableOptions(keys=partition.keys)
        for name, rows in tasks.tables_step(
            _pieces(partition.pieces), partition.splits, [self.table], treatment
        ):
            if name == self.table:
                yield tasks.with_topics(rows, partition.names) if partition.names else rows


def _pieces(blobs: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    for blob in blobs:
        yield from from_blob(blob)
