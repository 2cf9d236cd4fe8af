"""The filters of every command: what `--api`, `--client` and the others mean, and the tables they select.

Different filters are ANDed; several values of one filter are ORed. Names may be patterns as in a shell: * ?
[abc]. An exchange is selected or not as a whole:

    api      the API of its request; a request of Kafka 0.7 goes by the API that asks the same today
    client   the client id of its request
    topic    a topic that it names, by name or by an id that the capture gives a name
    group    the group of its request
    broker   the server of its connection: host, host:port, or a node id that the capture gives an address
    error    an error code anywhere in its response; None stands for any but 0
    since    the first byte of its request (or response, if the request was not captured) is not before this
    until    and is before this

`Filter` holds the values and the functions below it decide about one value each. `BatchFilter` applies them
to batches of the tables, and `exchanges.filter` to single exchanges, which it sees with their whole messages:
it also finds groups in lists, and topics inside the subscriptions and assignments that members of a group
exchange.

Tables stay consistent. Rows of partitions and events come with their exchange, and a connection comes with
any of its exchanges. A connection without exchanges comes only if no filter is given that an exchange alone
can answer (API, topic, group, error), and its own client id, server and times agree: so refused connections
are not lost.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.array_types import Bools, Int64s
from kdissect.protocol.kafka07.message_codec import CURRENT_API_KEYS
from kdissect.tables.array_batch import masked_rows, named_column, numbers_of
from kdissect.tables.coded_text import CodedText, NumberColumn
from kdissect.tables.exchange_keys import ExchangeKeys, find_exchanges

TableBatches: TypeAlias = Mapping[str, pa.RecordBatch]
Nodes: TypeAlias = Mapping[int, frozenset[tuple[str, int]]]
"""Addresses (host, port) of the brokers of a capture, by node id."""

TCP_TABLES = {"tcp_steps": "begin_ns", "tcp_spans": "end_ns"}
"""The tables about TCP, with the column of the latest time of a row."""

EVENT_TABLES = frozenset(
    (
        "group_events",
        "transaction_events",
        "records",
        "replica_sets",
        "share_acknowledgements",
        "shutdown_requests",
        "addressed_voters",
    )
)
"""Tables whose rows come with their exchanges, as those of `partitions` do."""

ANY_ERROR = None
"""In `Filter.errors`: every error code but 0."""

_KAFKA07_KEYS = np.array([CURRENT_API_KEYS[kind] for kind in sorted(CURRENT_API_KEYS)])


@dataclass(frozen=True, slots=True)
class Filter:
    """The filters that a user gave; an empty one selects everything."""

    apis: frozenset[int] = frozenset()
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    errors: frozenset[int | None] = frozenset()
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def selects_everything(self) -> bool:
        """Return whether no filter is given."""
        return self == Filter()

    @property
    def only_topic(self) -> str | None:
        """The topic, if the filter names exactly one and that is no pattern."""
        is_one = len(self.topics) == 1 and not set("*?[") & set(self.topics[0])
        return self.topics[0] if is_one else None

    @property
    def needs_names(self) -> bool:
        """Return whether names and addresses from anywhere in the capture must be known first."""
        return bool(self.topics) or self._names_nodes

    @property
    def needs_only_topics(self) -> bool:
        """Return whether names of topics must be known first, and no addresses."""
        return bool(self.topics) and not self._names_nodes

    @property
    def _names_nodes(self) -> bool:
        return any(broker.isdecimal() for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class CaptureNames:
    """The names that a whole capture tells: topics by id (as Kafka prints it), and the addresses of nodes."""

    topics: Mapping[str, str]
    nodes: Nodes


NO_NAMES = CaptureNames({}, {})


def matches(name: str | None, patterns: Iterable[str]) -> bool:
    """Return whether a name matches one of the patterns; None matches nothing."""
    return name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)


def wanted_topic_ids(wanted: Filter, names: CaptureNames) -> frozenset[str]:
    """Return the ids of the topics that a filter wants."""
    return frozenset(topic_id for topic_id, name in names.topics.items() if matches(name, wanted.topics))


def matches_broker(host: str | None, port: int | None, brokers: Iterable[str], nodes: Nodes) -> bool:
    """Return whether an address is that of one of the brokers, each a host, a host:port or a node id.

    A node is known by its advertised address, and by a port that it alone advertises.
    """
    if host is None:
        return False
    patterns = list(brokers)
    if matches(host, patterns) or matches(f"{host}:{port}", patterns) or f"[{host}]:{port}" in patterns:
        return True
    named = (ends for node, ends in nodes.items() if str(node) in patterns)
    for advertised_host, advertised_port in chain.from_iterable(named):
        sharing = sum(any(other == advertised_port for _, other in ends) for ends in nodes.values())
        if advertised_port == port and (advertised_host == host or sharing == 1):
            return True
    return False


def matches_error(code: int | None, errors: frozenset[int | None]) -> bool:
    """Return whether an error code is one of those wanted; None, a response without a code, is not."""
    return code is not None and (code in errors or (ANY_ERROR in errors and code != 0))


def in_window(first_ns: Int64s, last_ns: Int64s, wanted: Filter) -> Bools:
    """Return where the time from first to last (ns) reaches into the window of `--since` and `--until`."""
    mask = np.ones(len(first_ns), bool)
    if wanted.since_ns is not None:
        mask &= last_ns >= wanted.since_ns
    if wanted.until_ns is not None:
        mask &= first_ns < wanted.until_ns
    return mask


def current_api_keys(api_keys: Int64s, is_kafka07: Bools) -> Int64s:
    """Return API keys in which a request type of Kafka 0.7 is the key of the API that asks the same today."""
    types = np.where(is_kafka07 & (api_keys >= 0) & (api_keys < len(_KAFKA07_KEYS)), api_keys, -1)
    return np.where(types >= 0, _KAFKA07_KEYS[types], api_keys)


class BatchFilter:
    """A filter applied to the batches of some connections.

    Batches come in the order of `tables.build`: exchanges, then connections, then the tables about TCP.
    """

    def __init__(self, wanted: Filter, names: CaptureNames = NO_NAMES) -> None:
        self._wanted, self._names = wanted, names
        self._connections: set[int] = set()  # with a selected exchange
        self._selected = pa.array([], pa.int64())  # connections whose rows are kept

    def select(self, tables: TableBatches) -> TableBatches:
        """Return the tables with the selected rows; the tables of names and addresses stay as they are."""
        if self._wanted.selects_everything:
            return tables
        kept = dict(tables)
        if "exchanges" in tables:
            exchanges = tables["exchanges"]
            rows_of = {name: _rows_of(tables[name], exchanges) for name in self._tables_beside(tables)}
            selected = self._select_exchanges(tables, rows_of["partitions"])
            kept["exchanges"] = masked_rows(exchanges, selected)
            for name, rows in rows_of.items():
                kept[name] = masked_rows(tables[name], (rows >= 0) & selected[rows])
            connection = numbers_of(kept["exchanges"], "connection").values
            self._connections.update(np.unique(connection).tolist())
        if "connections" in tables:
            connections = tables["connections"]
            kept["connections"] = connections.filter(pa.array(self._select_connections(connections)))
            self._selected = kept["connections"]["connection"]
        for name, last in TCP_TABLES.items():
            if name in tables:
                kept[name] = self._select_tcp(tables[name], last)
        return kept

    def _select_tcp(self, rows: pa.RecordBatch, last: str) -> pa.RecordBatch:
        """Return the rows about TCP of selected connections in the window of time."""
        selected = np.isin(rows["connection"].to_numpy(), self._selected.to_numpy())
        selected &= _window_mask(rows["begin_ns"], rows[last].fill_null(0), self._wanted)
        return rows.filter(pa.array(selected))

    @staticmethod
    def _tables_beside(tables: TableBatches) -> list[str]:
        return ["partitions", *sorted(EVENT_TABLES & tables.keys())]

    def _select_exchanges(self, tables: TableBatches, exchange_of_partition: Int64s) -> Bools:
        """Return the mask of `exchanges`.

        `exchange_of_partition` has the exchange's row of each partition.
        """
        wanted, exchanges, partitions = self._wanted, tables["exchanges"], tables["partitions"]

        def with_partition(mask: Bools) -> Bools:
            rows = exchange_of_partition[mask]
            marked = np.zeros(exchanges.num_rows, bool)
            marked[rows[rows >= 0]] = True
            return marked

        selected = np.ones(exchanges.num_rows, bool)
        if wanted.apis:
            selected &= np.isin(_api_keys(exchanges), list(wanted.apis))
        if wanted.clients:
            selected &= mask_of(exchanges, "client_id", lambda name: matches(name, wanted.clients))
        if wanted.groups:
            selected &= mask_of(exchanges, "group_id", lambda name: matches(name, wanted.groups))
        if wanted.since_ns is not None or wanted.until_ns is not None:
            selected &= _begins_in_window(exchanges, wanted)
        if wanted.brokers:
            selected &= self._is_served(numbers_of(exchanges, "connection").values, tables.get("ends"))
        if wanted.topics:
            selected &= with_partition(self._names_topic(partitions))
        if wanted.errors:
            failed, failed_partitions = (
                mask_of(table, "error_code", lambda code: matches_error(code, wanted.errors))
                for table in (exchanges, partitions)
            )
            selected &= failed | with_partition(failed_partitions)
        return selected

    def _names_topic(self, partitions: pa.RecordBatch) -> Bools:
        """Return where the name of a topic is wanted, or, without a name, that of its id in the capture."""
        topics, names = self._wanted.topics, self._names.topics
        by_id = mask_of(partitions, "topic_id", lambda topic_id: matches(names.get(topic_id), topics))
        unnamed = ~mask_of(partitions, "topic", lambda _name: True)
        return mask_of(partitions, "topic", lambda name: matches(name, topics)) | (unnamed & by_id)

    def _is_served(self, connection: Int64s, ends: pa.RecordBatch | None) -> Bools:
        """Return where the server of a connection, as the table ENDS has it, is one of the brokers."""
        if ends is None:
            return np.zeros(len(connection), bool)
        return np.isin(connection, ends["connection"].to_numpy()[self._is_broker(ends)])

    def _is_broker(self, connections: pa.RecordBatch) -> Bools:
        ends = zip(*(connections[name].to_pylist() for name in ("server_host", "server_port")), strict=True)
        brokers, nodes = self._wanted.brokers, self._names.nodes
        return np.array([matches_broker(host, port, brokers, nodes) for host, port in ends], bool)

    def _select_connections(self, connections: pa.RecordBatch) -> Bools:
        wanted = self._wanted
        own: Bools = np.isin(
            connections["connection"].to_numpy(), np.array(list(self._connections), np.int64)
        )
        if wanted.apis or wanted.topics or wanted.groups or wanted.errors:
            return own
        messages = pc.add(connections["requests"], connections["orphan_responses"]).fill_null(0)
        agrees = _window_mask(connections["first_time_ns"], connections["last_time_ns"], wanted)
        if wanted.clients:
            agrees &= mask_of(connections, "client_id", lambda name: matches(name, wanted.clients))
        if wanted.brokers:
            agrees &= self._is_broker(connections)
        return own | ((messages.to_numpy(zero_copy_only=False) == 0) & agrees)


def _rows_of(batch: pa.RecordBatch, exchanges: pa.RecordBatch) -> Int64s:
    return find_exchanges(ExchangeKeys.of(batch), ExchangeKeys.of(exchanges))


def _api_keys(exchanges: pa.RecordBatch) -> Int64s:
    """Return the keys of today; -1 for a response without request.

    Only requests of Kafka 0.7 have no version.
    """
    key = numbers_of(exchanges, "api_key")
    is_kafka07 = ~numbers_of(exchanges, "api_version").present
    return current_api_keys(np.where(key.present, key.values, -1), is_kafka07)


def mask_of(table: pa.RecordBatch, name: str, is_wanted: Callable[[Any], bool]) -> Bools:
    """Return where a value of a column is wanted, asking once for each distinct value; null is not."""
    column = named_column(table, name)
    if isinstance(column, CodedText):
        is_there = np.bincount(column.numbers + 1, minlength=len(column.texts) + 1)[1:] > 0
        numbers = np.flatnonzero(is_there)
        wanted = np.zeros(len(is_there) + 1, bool)  # number -1 finds the last place
        wanted[numbers] = [*map(is_wanted, column.texts.take(pa.array(numbers)).to_pylist())]
        mask: Bools = wanted[column.numbers]
        return mask
    assert isinstance(column, NumberColumn)
    found = [value for value in np.unique(column.values).tolist() if is_wanted(value)]
    return column.present & np.isin(column.values, found)


def _begins_in_window(exchanges: pa.RecordBatch, wanted: Filter) -> Bools:
    """Return where the first byte of an exchange that is there came in the window."""
    request, response = (numbers_of(exchanges, f"{side}_first_ns") for side in ("request", "response"))
    first_ns = np.where(request.present, request.values, response.values)
    return (request.present | response.present) & in_window(first_ns, first_ns, wanted)


def _window_mask(first: pa.Array, last: pa.Array, wanted: Filter) -> Bools:
    """Return where two columns of times reach into the window; an unknown time is outside every window."""
    known: Bools = first.is_valid().to_numpy(zero_copy_only=False)
    first_ns, last_ns = (column.fill_null(0).to_numpy(zero_copy_only=False) for column in (first, last))
    return known & in_window(first_ns, last_ns, wanted)
