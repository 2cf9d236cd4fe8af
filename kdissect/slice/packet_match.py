"""Which packets of a split belong to what is selected.

In come the packets of a split, record by record, out go rows of those that match. A packet belongs to the
connection that uses its innermost 4-tuple at that place of the capture: a bare SYN with the time at which the
next connection begins hands the 4-tuple over. So times that step back do no harm. Copies of a packet match
like the packet itself.

A later fragment of an IP datagram has no ports. It follows the first fragment of its datagram, in the same
split or in the one before.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Bytes, Int64s
from kdissect.capture.formats.record_reader import ReadOutcome, RecordLayout, RecordReader
from kdissect.capture.formats.record_table import AT, CAPTURED, LINK_TYPE, ORIGINAL, TIME_NS
from kdissect.capture.index.splits import Split, interface_table
from kdissect.capture.packets import headers
from kdissect.capture.packets.headers import HEAD_BYTES, read_packet
from kdissect.capture.packets.link_layer import KIND, LINK_TABLE, SKIP, TYPE_AT
from kdissect.capture.storage import CaptureStorage
from kdissect.jit.decorators import jit_flat
from kdissect.slice.packet_selection import Occupant
from kdissect.streams.endpoints import Endpoints

END_BYTES = 20  # address and port as five 32-bit words
FULL_TUPLE = f"S{2 * END_BYTES}"  # NumPy compares such bytes as memcmp does
CLASS = headers.SEGMENT_FIELDS  # column behind those of a segment
SEGMENT_NUMBERS = [  # columns of a segment that go on with a packet
    headers.PAYLOAD,
    headers.PAYLOAD_CAPTURED,
    headers.PAYLOAD_MISSING,
    headers.SEQUENCE,
    headers.CONTROL,
]
OPENING = headers.CONTROL_SYN | headers.CONTROL_ACK


class MatchedPacket(NamedTuple):
    """A packet that is to be copied."""

    number: int  # in its file
    record: tuple[int, ...]  # row of the record table
    payload: int  # where TCP's payload begins in it, 0 for a later fragment
    captured: int = 0  # bytes of payload that are there
    missing: int = 0  # bytes of payload that the capture cut off
    sequence: int = 0
    control: int = 0  # the flags byte of TCP
    side: int = 0  # 0: from end A, 1: from end B
    connection: int = -1  # row of its connection, -1 for a later fragment


class PacketMatcher:
    """Finds the packets of connections, split after split."""

    def __init__(self, occupants: Mapping[Endpoints, Sequence[Occupant]]) -> None:
        ends = sorted(occupants, key=tuple_bytes)
        self._tuples = np.array([tuple_bytes(one) for one in ends], FULL_TUPLE)
        self._occupants = [occupants[one] for one in ends]
        self._current = [0] * len(ends)
        self._datagrams: set[int] = set()  # of matching first fragments in the split before

    def packets_of(self, split: Split, source: CaptureStorage) -> list[MatchedPacket]:
        """Return the packets of a split that match, in their order. Splits come in theirs."""
        matched: list[MatchedPacket] = []
        fragments: list[tuple[int, MatchedPacket]] = []
        datagrams: set[int] = set()
        reader = RecordReader(source, split.start, split.stop, HEAD_BYTES, clock_ns=split.time_before_ns)
        layout = RecordLayout(
            split.format, split.big_endian, split.record_header, interface_table(split.interfaces)
        )
        number = split.first_packet
        outcome = ReadOutcome.MORE
        while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
            outcome = reader.advance(layout)
            records = reader.records
            segments = np.zeros((len(records), CLASS + 1), np.int64)
            read_headers(reader.buffer, reader.base, records, segments)
            for index in np.flatnonzero(segments[:, CLASS] == headers.FRAGMENT).tolist():
                packet = MatchedPacket(number + index, tuple(records[index].tolist()), 0)
                fragments.append((int(segments[index, headers.DATAGRAM]), packet))
            for index, side, connection in self._matching(records, segments):
                record = tuple(records[index].tolist())
                payload, kept, missing, sequence, control = segments[index, SEGMENT_NUMBERS].tolist()
                matched.append(
                    MatchedPacket(
                        number + index, record, payload, kept, missing, sequence, control, side, connection
                    )
                )
                if segments[index, headers.DATAGRAM] >= 0:
                    datagrams.add(int(segments[index, headers.DATAGRAM]))
            number += len(records)
        known = datagrams | self._datagrams
        self._datagrams = datagrams
        return sorted([*matched, *(packet for datagram, packet in fragments if datagram in known)])

    def _matching(self, records: Int64s, segments: Int64s) -> list[tuple[int, int, int]]:
        """Return the records that belong to what is wanted of a connection.

        Each comes as its index, the end that sent it, and the row of its connection.
        """
        rows = np.flatnonzero(segments[:, CLASS] == headers.SEGMENT)
        if not len(rows) or not len(self._tuples):
            return []
        tuples, sides = canonical_tuples(segments[rows])
        places = np.minimum(np.searchsorted(self._tuples, tuples), len(self._tuples) - 1)
        known = np.flatnonzero(self._tuples[places] == tuples)
        rows = rows[known]
        lengths = segments[rows, headers.PAYLOAD_CAPTURED] + segments[rows, headers.PAYLOAD_MISSING]
        columns = (rows, places[known], sides[known], records[rows, TIME_NS],
                   segments[rows, headers.CONTROL], lengths > 0)  # fmt: skip
        found = zip(*(column.tolist() for column in columns), strict=True)
        wanted = ((row, int(packet[1]), self._wanted_by(*packet)) for row, *packet in found)
        return [one for one in wanted if one[2] >= 0]

    def _wanted_by(self, place: int, side: bool, time_ns: int, control: int, has_payload: bool) -> int:
        """Return the row of the connection that wants a packet, -1 if none does."""
        occupants, current = self._occupants[place], self._current[place]
        if (
            control & OPENING == headers.CONTROL_SYN
            and current + 1 < len(occupants)
            and occupants[current + 1].first_ns == time_ns
        ):
            current = self._current[place] = current + 1
        wanted, connection = occupants[current].wanted, occupants[current].connection
        is_wanted = wanted is not None and wanted.has(time_ns, int(side), has_payload)
        return connection if is_wanted else -1


def tuple_bytes(ends: Endpoints) -> bytes:
    """Return a 4-tuple as bytes: the lower end, then the higher one."""
    a, b = ((ends.a_host, ends.a_port), (ends.b_host, ends.b_port))
    return b"".join(host + port.to_bytes(4, "big") for host, port in (a, b))


def canonical_tuples(segments: Int64s) -> tuple[NDArray[np.bytes_], NDArray[np.bool_]]:
    """Return the 4-tuples of segments as `tuple_bytes` has them, and whether each came from end B."""
    source = _ends(segments, headers.SOURCE, headers.SOURCE_PORT)
    target = _ends(segments, headers.TARGET, headers.TARGET_PORT)
    from_b = source.view(f"S{END_BYTES}")[:, 0] > target.view(f"S{END_BYTES}")[:, 0]
    both = np.where(from_b[:, None], np.hstack((target, source)), np.hstack((source, target)))
    return np.ascontiguousarray(both).view(FULL_TUPLE)[:, 0], from_b


def _ends(segments: Int64s, first_word: int, port: int) -> NDArray[np.uint8]:
    columns = [*range(first_word, first_word + 4), port]
    words = np.ascontiguousarray(segments[:, columns], dtype=">u4")
    return words.view(np.uint8)


@jit_flat
def read_headers(data: Bytes, base: int, records: Int64s, segments: Int64s) -> None:
    """Fill a row of `segments` for each record: the columns of `headers`, and CLASS."""
    for i in range(len(records)):
        link_type = records[i, LINK_TYPE]
        what = headers.UNKNOWN_LINK
        if 0 <= link_type < len(LINK_TABLE) and LINK_TABLE[link_type, KIND] >= 0:
            what = read_packet(
                data,
                records[i, AT] - base,
                records[i, CAPTURED],
                records[i, ORIGINAL],
                LINK_TABLE[link_type, KIND],
                LINK_TABLE[link_type, TYPE_AT],
                LINK_TABLE[link_type, SKIP],
                segments[i],
            )
        segments[i, CLASS] = what
