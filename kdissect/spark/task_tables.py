"""The tables of one task: rows that a filter keeps, with names replaced."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from kdissect.capture.index.splits import Split
from kdissect.payload.payload_decoder import PayloadDecoder
from kdissect.payload.schema_store import SchemaStore
from kdissect.streams.processor import FlowProcessor
from kdissect.streams.tls.keylog import NO_KEYS, KeyLog
from kdissect.tables.anonymize import Pseudonyms
from kdissect.tables.build import Paired, TableMaker, new_table_processor, paired_batches
from kdissect.tables.connections import ConnectionDetails
from kdissect.tables.filters import (
    NO_NAMES,
    BatchFilter,
    CaptureNames,
    Filter,
    TableBatches,
)


@dataclass(frozen=True, slots=True)
class TableOptions:
    """How tables are made: which rows the filter keeps, then how names are replaced.

    `keys` decrypt TLS. Tasks carry them to a cluster, and to local workers the name of a
    socket (`served_keys`).
    """

    filter: Filter = Filter()  # noqa: RUF009 - frozen
    pseudonyms: Pseudonyms | None = None
    names: CaptureNames = NO_NAMES
    keys: KeyLog = NO_KEYS
    schemas: SchemaStore | None = None  # of keys and values, for the table `records`


DEFAULT = TableOptions()


Learnt: TypeAlias = tuple[ConnectionDetails, BatchFilter]
"""The facts that exchanges told of their connections, and a filter that knows which it has selected."""


class TaskTables:
    """The tables of one task: rows that the filter keeps, with names replaced.

    `wanted` names optional tables. With `as_arrays`, exchanges and partitions are arrays, unless names are
    replaced: figures need no Arrow.
    """

    def __init__(
        self,
        splits: Sequence[Split],
        treatment: TableOptions,
        wanted: Sequence[str] = (),
        as_arrays: bool = False,
        decoder: PayloadDecoder | None = None,
    ) -> None:
        self.wanted = frozenset((*wanted, *(("ends",) if treatment.filter.brokers else ())))
        as_arrays = as_arrays and treatment.pseudonyms is None
        self._maker = TableMaker(splits, self.wanted, as_arrays, decoder or PayloadDecoder())
        self._filter = BatchFilter(treatment.filter, treatment.names)
        self._pseudonyms = treatment.pseudonyms

    def exchanges(self, paired: Iterable[Paired]) -> Iterator[TableBatches]:
        """Yield batches of tables for finished exchanges, which come in order."""
        return self._kept(self._maker.exchanges(paired))

    def connections(self, processor: FlowProcessor) -> Iterator[TableBatches]:
        """Yield the tables about connections and TCP, after all exchanges."""
        return self._kept(self._maker.connections(processor))

    @property
    def learnt(self) -> Learnt:
        """Facts from exchanges which the tables about connections need."""
        return self._maker.details, self._filter

    @learnt.setter
    def learnt(self, learnt: Learnt) -> None:
        self._maker.details, self._filter = learnt

    def _kept(self, batches: Iterable[TableBatches]) -> Iterator[TableBatches]:
        for tables in batches:
            kept = self._filter.select(tables)
            yield self._pseudonyms.tables(kept) if self._pseudonyms else kept


def build_tables(
    batches: Iterable[pa.RecordBatch],
    splits: Sequence[Split],
    treatment: TableOptions,
    wanted: Sequence[str] = (),
    as_arrays: bool = False,
    decoder: PayloadDecoder | None = None,
) -> Iterator[TableBatches]:
    """Yield batches of the tables from segment descriptors; see `TaskTables`."""
    tables = TaskTables(splits, treatment, wanted, as_arrays, decoder)
    processor = new_table_processor(splits, treatment.keys, reads_all="records" in tables.wanted)
    yield from tables.exchanges(paired_batches(batches, processor, tables.wanted))
    yield from tables.connections(processor)
