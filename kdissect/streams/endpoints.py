"""The ends of connections: the canonical 4-tuple, its bytes, the number made of it, and a table of them.

A capture may have 100,000 connections, each with an end in every batch of exchanges. So they are kept as rows
of an array, and columns are taken for many rows at once.
"""

import hashlib
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kdissect.array_types import Int64s
from kdissect.jit.rows import Records
from kdissect.text import format_ip

# Endpoints as bytes.
KEY = np.dtype([("a_host", "V16"), ("a_port", ">i4"), ("b_host", "V16"), ("b_port", ">i4")])
ROW = np.dtype(
    [
        *((name, KEY[name]) for name in KEY.names or ()),
        ("identity", "i8"),
        ("a_number", "i4"),
        ("b_number", "i4"),
    ]
)
LEAST_ROWS = 64
SPARE_HOSTS = 1 << 12  # of forgotten connections: more are dropped


class Endpoints(NamedTuple):
    """The canonical 4-tuple of a connection: A is the lower end; addresses as 16 bytes."""

    a_host: bytes
    a_port: int
    b_host: bytes
    b_port: int

    @property
    def key(self) -> Records:
        """The four as one row of KEY."""
        return np.array([tuple(self)], KEY)


def keys_of(pieces: pa.RecordBatch) -> Records:
    """Return the endpoints of each piece (rows of PIECES) as rows of KEY."""
    keys = np.empty(pieces.num_rows, KEY)
    for side in ("a", "b"):
        host = pieces[f"{side}_host"]
        keys[f"{side}_host"] = np.frombuffer(host.buffers()[1], "V16")[host.offset :][: len(host)]
        keys[f"{side}_port"] = pieces[f"{side}_port"].to_numpy()
    return keys


def connection_identity(ends: tuple[bytes, int, bytes, int], first_time_ns: int) -> int:
    """Return the number that names a connection.

    It has 52 bits (exact in any JSON reader), and depends on nothing but the endpoints and the first time.
    """
    text = b"%b %d %b %d %d" % (*ends, first_time_ns)
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 12


class HostTexts:
    """The hosts of connections as numbers, and the text of each number.

    A few hosts have all connections. Each batch of exchanges comes with the hosts of its connections, and to
    make them texts each time took 120 ns an exchange of mixed traffic.
    """

    def __init__(self) -> None:
        self._number_of: dict[bytes, int] = {}
        self._texts = pa.array([], pa.string())

    def __len__(self) -> int:
        return len(self._number_of)

    def numbers(self, hosts: NDArray[np.generic]) -> Int64s:
        """Return the number of each host, addresses as 16 bytes."""
        memory = [None, pa.py_buffer(np.ascontiguousarray(hosts))]
        coded = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(hosts), memory).dictionary_encode()
        number_of = self._number_of
        of_each = [number_of.setdefault(host, len(number_of)) for host in coded.dictionary.to_pylist()]
        return np.array(of_each, np.int64)[coded.indices.to_numpy()]

    @property
    def texts(self) -> pa.Array:
        """The text of each number, each once."""
        known = len(self._texts)
        if known < len(self._number_of):
            more = list(map(format_ip, islice(self._number_of, known, None)))
            self._texts = pa.concat_arrays([self._texts, pa.array(more, pa.string())])
        return self._texts


class EndpointTable:
    """Endpoints and identity of each connection, by row."""

    def __init__(self) -> None:
        self._rows = np.zeros(LEAST_ROWS, ROW)
        self._count = 0
        self.hosts = HostTexts()

    def put(self, rows: Int64s, keys: Records, identities: Int64s) -> None:
        """Set some rows, one at least. New ones follow those that are there."""
        self._count = max(self._count, int(rows.max()) + 1)
        if self._count > len(self._rows):
            grown = np.zeros(2 * self._count, ROW)
            grown[: len(self._rows)] = self._rows
            self._rows = grown
        for name in KEY.names or ():
            self._rows[name][rows] = keys[name]
        self._rows["identity"][rows] = identities
        self._number_hosts(rows)
        if len(self.hosts) > SPARE_HOSTS + 2 * self._count:
            self.hosts = HostTexts()
            self._number_hosts(np.arange(self._count))

    def _number_hosts(self, rows: Int64s) -> None:
        for side in ("a", "b"):
            self._rows[f"{side}_number"][rows] = self.hosts.numbers(self._rows[f"{side}_host"][rows])

    def keys(self, rows: Int64s) -> Records:
        """Return the endpoints of some connections as rows of KEY."""
        keys = np.empty(len(rows), KEY)
        for name in KEY.names or ():
            keys[name] = self._rows[name][rows]
        return keys

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> Endpoints:
        return Endpoints(*self._rows[: self._count][row].tolist()[: len(Endpoints._fields)])

    def __iter__(self) -> Iterator[Endpoints]:
        fields = len(Endpoints._fields)
        return (Endpoints(*row[:fields]) for row in self._rows[: self._count].tolist())

    @property
    def identities(self) -> Int64s:
        """The identity of each connection."""
        identities: Int64s = self._rows["identity"][: self._count]
        return identities

    def identity(self, row: int) -> int:
        """Return the identity of a connection."""
        return int(self._rows["identity"][row])

    def column(self, name: str, rows: Int64s) -> NDArray[np.generic]:
        """Return a field of some connections."""
        column: NDArray[np.generic] = self._rows[name][rows]
        return column
