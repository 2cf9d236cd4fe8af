"""Which exchanges are wanted: the one meaning of `--api`, `--client`, `--topic`, `--group`, `--broker`, `--error`, `--since`, `--until`.

All filters must agree; of several values for one filter one is enough. Names may be patterns as in a shell: * ? [abc].
An exchange is wanted or not as a whole:

    api      its API, by key; traffic of Kafka 0.7 by the API that asks the same today
    client   its request's client id
    topic    a topic that it names, by name or by an id that the capture gives a name
    group    the group that its request is for
    broker   the server of its connection: host, host:port, or a node id that the capture gives an address
    error    an error code anywhere in its response; None stands for any but 0
    since    its request's first byte is not before this time (a response's, where the request was not captured)
    until    … and is before this one

Tables stay consistent: partition rows come with their exchange, and a connection comes with any exchange of its own. One
that has none comes only if nothing was asked that an exchange alone could answer (API, topic, group, error), and its own
client id, server and time agree: so refused connections are not lost.

`dump`, which sees whole messages, takes the same choice (`exchanges.filter`); it also finds groups that stand in lists, and
topics inside the subscriptions and assignments that members of a group exchange.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kdissect.protocol.kafka07.message_codec import KEYS_NOW

Mask: TypeAlias = npt.NDArray[np.bool_]
Tables: TypeAlias = Mapping[str, pa.RecordBatch]

EVENTS = frozenset(("group_events", "transaction_events"))
"""Tables whose rows come with their exchanges, as those of `partitions` do."""

ANY_ERROR = None
"""In `error_rows`: every error code but 0."""


@dataclass(frozen=True, slots=True)
class TableFilter:
    """What was asked for; empty means everything."""

    apis: frozenset[int] = frozenset()
    clients: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    errors: frozenset[int | None] = frozenset()
    since_ns: int | None = None
    until_ns: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing was asked for in particular."""
        return self == TableFilter()

    @property
    def rests_on_names(self) -> bool:
        """Whether names and addresses from anywhere in the capture must be known first."""
        return bool(self.topics) or any(broker.isdecimal() for broker in self.brokers)


@dataclass(frozen=True, slots=True)
class Known:
    """What a whole capture tells of names: topics by id, and the addresses of nodes."""

    topics: Mapping[str, str]
    nodes: Mapping[int, frozenset[tuple[str, int]]]


NOTHING_KNOWN = Known({}, {})


def matches(name: str | None, patterns: Iterable[str]) -> bool:
    """Tell whether a name is one of those asked for."""
    return name is not None and any(fnmatchcase(name, pattern) for pattern in patterns)


def is_server(host: str | None, port: int | None, brokers: Iterable[str], known: Known) -> bool:
    """Tell whether an address is one of the brokers asked for; a node also goes by a port that it alone has."""
    if host is None:
        return False
    asked = list(brokers)
    if matches(host, asked) or matches(f"{host}:{port}", asked) or f"[{host}]:{port}" in asked:
        return True
    for node in (int(broker) for broker in asked if broker.isdecimal()):
        for advertised, at in known.nodes.get(node, ()):
            sharing = sum((any(port == at for _, port in ends)) for ends in known.nodes.values())
            if at == port and (advertised == host or sharing == 1):
                return True
    return False


class Chooser:
    """A choice at work on the batches of some connections, in the order in which they are made: exchanges, then connections."""

    def __init__(self, choice: TableFilter, known: Known = NOTHING_KNOWN) -> None:
        self.choice, self.known = choice, known
        self._connections: set[int] = set()

    def narrowed(self, tables: Tables) -> Tables:
        """Keep what is wanted of the tables; names and addresses stay as they are."""
        if self.choice.everything:
            return tables
        kept = dict(tables)
        if "exchanges" in tables:
            exchanges, partitions = tables["exchanges"], tables["partitions"]
            wanted = self._exchanges(exchanges, partitions, tables.get("ends"))
            of_exchange = located(partitions, exchanges)
            kept["exchanges"] = exchanges.filter(pa.array(wanted))
            kept["partitions"] = partitions.filter(pa.array((of_exchange >= 0) & wanted[of_exchange]))
            for name in EVENTS & tables.keys():
                of_event = located(tables[name], exchanges)
                kept[name] = tables[name].filter(pa.array((of_event >= 0) & wanted[of_event]))
            self._connections.update(kept["exchanges"]["connection"].to_pylist())
        if "connections" in tables:
            connections = tables["connections"]
            kept["connections"] = connections.filter(pa.array(self._of_connections(connections), pa.bool_()))
        return kept

    def _exchanges(
        self, exchanges: pa.RecordBatch, partitions: pa.RecordBatch, ends: pa.RecordBatch | None
    ) -> Mask:
        choice = self.choice
        wanted = np.ones(exchanges.num_rows, bool)
        if choice.apis:
            wanted &= np.isin(keys_now(exchanges), list(choice.apis))
        if choice.clients:
            wanted &= _named(exchanges["client_id"], choice.clients)
        if choice.groups:
            wanted &= _named(exchanges["group_id"], choice.groups)
        if choice.since_ns is not None or choice.until_ns is not None:
            began = pc.coalesce(exchanges["request_first_ns"], exchanges["response_first_ns"])
            wanted &= _within(began, began, choice)
        if choice.brokers:
            wanted &= self._served(exchanges["connection"], ends)
        if choice.topics:
            topic = pc.coalesce(partitions["topic"], _topics_of(partitions["topic_id"], self.known.topics))
            wanted &= _any_of(_named(topic, choice.topics), partitions, exchanges)
        if choice.errors:
            wanted &= _failed(exchanges["error_code"], choice.errors) | _any_of(
                _failed(partitions["error_code"], choice.errors), partitions, exchanges
            )
        return wanted

    def _served(self, connection: pa.Array, ends: pa.RecordBatch | None) -> Mask:
        rows = ends.to_pylist() if ends is not None else []
        asked = [
            row["connection"]
            for row in rows
            if is_server(row["server_host"], row["server_port"], self.choice.brokers, self.known)
        ]
        found: Mask = np.isin(connection.to_numpy(), np.array(asked, np.int64))
        return found

    def _of_connections(self, connections: pa.RecordBatch) -> Mask:
        choice = self.choice
        own: Mask = np.isin(connections["connection"].to_numpy(), np.array(list(self._connections), np.int64))
        if choice.apis or choice.topics or choice.groups or choice.errors:
            return own
        idle = (pc.add(connections["requests"], connections["orphan_responses"]).fill_null(0)).to_numpy(
            False
        ) == 0
        agrees = _within(connections["first_time_ns"], connections["last_time_ns"], choice)
        if choice.clients:
            agrees &= _named(connections["client_id"], choice.clients)
        if choice.brokers:
            ends = zip(
                *(connections[name].to_pylist() for name in ("server_host", "server_port")), strict=True
            )
            asked = [is_server(host, port, choice.brokers, self.known) for host, port in ends]
            agrees &= np.array(asked, np.bool_)
        found: Mask = own | (idle & agrees)
        return found


def keys_now(exchanges: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Give API keys, those of Kafka 0.7 as the key of today that asks the same; -1 for a response without request."""
    key = exchanges["api_key"].fill_null(-1).to_numpy(False).astype(np.int64)
    old = np.array([KEYS_NOW[kind] for kind in sorted(KEYS_NOW)])
    before = exchanges["api_version"].is_null().to_numpy(False) & (key >= 0) & (key < len(old))
    return np.where(before, old[np.where(before, key, 0)], key)


def located(partitions: pa.RecordBatch, exchanges: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Give the row of each partition's exchange in the same batch, -1 where there is none."""
    places = pa.table(
        {
            "connection": exchanges["connection"],
            "ordinal": exchanges["ordinal"],
            "row": np.arange(exchanges.num_rows),
        }
    ).filter(exchanges["ordinal"].is_valid())
    asked = pa.table(
        {
            "connection": partitions["connection"],
            "ordinal": partitions["ordinal"],
            "at": np.arange(partitions.num_rows),
        }
    )
    found = asked.join(places, ["connection", "ordinal"], join_type="inner")
    rows = np.full(partitions.num_rows, -1, np.int64)
    rows[found["at"].to_numpy()] = found["row"].to_numpy()
    return rows


def _any_of(mask: Mask, partitions: pa.RecordBatch, exchanges: pa.RecordBatch) -> Mask:
    """Mark the exchanges with a partition that is marked."""
    rows = located(partitions, exchanges)[mask]
    marked = np.zeros(exchanges.num_rows, bool)
    marked[rows[rows >= 0]] = True
    return marked


def _named(names: pa.Array, patterns: Iterable[str]) -> Mask:
    patterns = tuple(patterns)
    coded = names.dictionary_encode()
    fits = np.array([matches(name, patterns) for name in coded.dictionary.to_pylist()] + [False], bool)
    found: Mask = fits[coded.indices.fill_null(len(fits) - 1).to_numpy(False)]
    return found


def _topics_of(ids: pa.Array, topics: Mapping[str, str]) -> pa.Array:
    coded = ids.dictionary_encode()
    names = pa.array([topics.get(value) for value in coded.dictionary.to_pylist()], pa.string())
    return names.take(coded.indices)


def _failed(codes: pa.Array, errors: frozenset[int | None]) -> Mask:
    numbers = codes.fill_null(0).to_numpy(False)
    there = codes.is_valid().to_numpy(False)
    asked = [code for code in errors if code is not ANY_ERROR]
    found: Mask = there & (np.isin(numbers, asked) | ((ANY_ERROR in errors) & (numbers != 0)))
    return found


def _within(first: pa.Array, last: pa.Array, choice: TableFilter) -> Mask:
    """Mark what reaches into the window; a time that is not known is outside of every window."""
    wanted: Mask = first.is_valid().to_numpy(False)
    if choice.since_ns is not None:
        wanted &= last.fill_null(0).to_numpy(False) >= choice.since_ns
    if choice.until_ns is not None:
        wanted &= first.fill_null(0).to_numpy(False) < choice.until_ns
    return wanted
