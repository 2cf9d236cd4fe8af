"""Records in a stream (RFC 8446, section 5.1): where one ends and the next begins, also behind lost bytes.

`Records.read` takes what a direction holds, chunk by chunk, and gives each whole record to `on_record`, which
says what became of it. It answers how many bytes are done with; what is not must be given again, with what
came behind it.

A gap inside a record whose header is known costs that record only: the next one begins where its length says.
A gap that swallows a header loses the place: then every place that looks like a header is tried, and the
first record that `on_record` takes is where the stream goes on. `missing` counts what was passed over:
the bytes on the wire since the last record that was taken.

The compiled loops recognise records by the same rules: `is_tls_record` and `tls_is_ready`.

`alert_name` names the alerts that a record may hold (RFC 8446, section 6, and the registry of IANA).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

from kdissect.array_types import Bytes
from kdissect.jit.decorators import jit_inner
from kdissect.streams.chunks import view
from kdissect.streams.flow_state import State

CHANGE_CIPHER_SPEC, ALERT, HANDSHAKE, APPLICATION_DATA = 20, 21, 22, 23
HEADER_BYTES = 5
RECORD_VIEW = HEADER_BYTES + 1  # bytes: a header and the first byte of its record
MAJOR_VERSION, HIGHEST_MINOR = 3, 4  # SSL 3.0 is 3.0, TLS 1.3 is 3.4
HIGHEST_MESSAGE = 24  # the highest type of a handshake message that is in use: key_update
MOST_FRAGMENT = (1 << 14) + 2048  # RFC 5246, section 6.2.3; TLS 1.3 allows less
LOOKS_LIKE_HEADER = re.compile(rb"[\x14-\x17]\x03[\x00-\x04][\x00-\x48].", re.DOTALL)


class Chunk(NamedTuple):
    """Bytes of one packet in the order of the stream; no data: a gap."""

    data: bytes | None
    length: int
    time_ns: int
    packet: int


class Place(NamedTuple):
    """The packet with the last byte of a record."""

    time_ns: int
    packet: int


class RecordVerdict(Enum):
    """Verdict on a record."""

    TAKEN = auto()
    SHUT = auto()  # it could not be opened
    HELD = auto()  # the other direction must go on first


OnRecord = Callable[[bytes, bytes, Place], RecordVerdict]  # header, fragment, place


class _Run:
    """Chunks without a gap between them."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.data = b"".join(chunk.data for chunk in chunks if chunk.data is not None)
        self._chunks = chunks
        self._next, self._end = 0, 0

    def place(self, stop: int) -> Place:
        """Return the packet with the byte before `stop`, which may not be less than at the call before."""
        while self._end < stop:
            self._end += self._chunks[self._next].length
            self._next += 1
        return Place(*self._chunks[self._next - 1][2:])


class Records:
    """The place in one direction."""

    __slots__ = ("broken", "gone", "lost", "missing", "passed", "skip")

    def __init__(self) -> None:
        self.lost = False  # whether it is unknown where the next record begins
        self.skip = 0  # bytes before the next record: the rest of one that is of no use
        self.missing = 0  # bytes on the wire since the last record that was taken
        self.broken = 0  # records among them that a gap has cut, each known by its header
        self.gone = 0  # of these, bytes in which any number of records may have been
        self.passed = 0  # captured bytes, in all, of which nothing could be made

    def read(self, chunks: Sequence[Chunk], on_record: OnRecord) -> tuple[int, bool]:
        """Go through the records.

        Return how many bytes are done with, and whether the next record is held.
        """
        done, held = 0, False
        for run, gap in _runs(chunks):
            at, held = self._read_run(run, gap > 0, on_record)
            done += at
            if held or not gap:
                break
            rest = run.data[at:]
            self.passed += len(rest)
            self._over_gap(rest, gap)
            done += len(rest) + gap
        return done, held

    def found_again(self) -> None:
        """A record was taken: nothing is missing any more."""
        self.lost = False
        self.missing = self.broken = self.gone = 0

    def _read_run(self, run: _Run, gap_follows: bool, on_record: OnRecord) -> tuple[int, bool]:
        data = run.data
        at = min(self.skip, len(data))
        self.skip -= at
        self.missing += at
        self.passed += at
        while True:
            if self.lost:
                at = self._search(run, at, gap_follows, on_record)
                if self.lost:
                    return at, False
            if at + HEADER_BYTES > len(data):
                return at, False
            header = data[at : at + HEADER_BYTES]
            if not _plausible(header):
                self.lost = True
                continue
            stop = at + HEADER_BYTES + _size(header)
            if stop > len(data):
                return at, False
            verdict = on_record(header, data[at + HEADER_BYTES : stop], run.place(stop))
            if verdict is RecordVerdict.HELD:
                return at, True
            if verdict is RecordVerdict.SHUT:
                self.missing += stop - at
                self.passed += stop - at
            at = stop

    def _search(self, run: _Run, at: int, gap_follows: bool, on_record: OnRecord) -> int:
        """Look for a record that can be taken; return the position behind it, or how far there is none."""
        data, start = run.data, at
        reach = len(data) if gap_follows else max(at, len(data) - HEADER_BYTES + 1)
        for match in LOOKS_LIKE_HEADER.finditer(data, at):
            at = match.start()
            header = data[at : at + HEADER_BYTES]
            if not _plausible(header):
                continue
            stop = at + HEADER_BYTES + _size(header)
            if stop > len(data):
                if gap_follows:
                    continue
                reach = at
                break
            self._miss(at - start)
            start = at
            if on_record(header, data[at + HEADER_BYTES : stop], run.place(stop)) is RecordVerdict.TAKEN:
                self.lost = False
                return stop
        self._miss(reach - start)
        return reach

    def _miss(self, count: int) -> None:
        self.missing += count
        self.gone += count
        self.passed += count

    def _over_gap(self, rest: bytes, gap: int) -> None:
        """Go on behind a gap; `rest` is what lies before it since the last boundary that is known."""
        if self.skip:
            beyond = gap - self.skip
            self.missing += min(gap, self.skip)
        elif self.lost or len(rest) < HEADER_BYTES:
            beyond = len(rest) + gap
        else:
            whole = HEADER_BYTES + _size(rest)
            self.broken += 1
            beyond = len(rest) + gap - whole
            self.missing += min(len(rest) + gap, whole)
        self.skip = max(0, -beyond)
        if beyond > 0:
            self.lost = True
            self.missing += beyond
            self.gone += beyond


def _runs(chunks: Sequence[Chunk]) -> Iterator[tuple[_Run, int]]:
    """Return the runs of chunks, each with the size of the gap behind it; 0: there is none."""
    first = 0
    for index, chunk in enumerate(chunks):
        if chunk.data is None:
            yield _Run(chunks[first:index]), chunk.length
            first = index + 1
    yield _Run(chunks[first:]), 0


def _size(header: bytes) -> int:
    return header[3] << 8 | header[4]


def _plausible(header: bytes) -> bool:
    return LOOKS_LIKE_HEADER.match(header) is not None and 0 < _size(header) <= MOST_FRAGMENT


@jit_inner
def record_bytes(data: Bytes, offset: int) -> int:
    """Return the size of the record whose header is at an offset, header included."""
    return HEADER_BYTES + ((int(data[offset + 3]) << 8) | int(data[offset + 4]))


@jit_inner
def is_tls_record(data: Bytes, offset: int, length: int) -> bool:
    """Return whether `length` bytes at an offset look like the header of a record and its first byte."""
    if length < RECORD_VIEW or not _is_record_header(data, offset):
        return False
    if record_bytes(data, offset) == HEADER_BYTES or data[offset + 2] > HIGHEST_MINOR:
        return False
    return bool(data[offset] != HANDSHAKE or data[offset + HEADER_BYTES] <= HIGHEST_MESSAGE)


@jit_inner
def _is_record_header(data: Bytes, offset: int) -> bool:
    """Return whether five bytes have the type, the version and the length of a record."""
    if data[offset] < CHANGE_CIPHER_SPEC or data[offset] > APPLICATION_DATA:
        return False
    fits = record_bytes(data, offset) <= HEADER_BYTES + MOST_FRAGMENT
    return bool(data[offset + 1] == MAJOR_VERSION and fits)


@jit_inner
def tls_is_ready(state: State, direction: int) -> bool:
    """Return whether a direction under TLS has got a whole record, a gap, or bytes that are no record."""
    row = state.directions[direction]
    if row.head < 0 or row.next <= row.scanned.position:
        return False
    held = row.next - row.frame
    offset, length = view(state, direction, row.frame, HEADER_BYTES)
    if length < HEADER_BYTES:
        return bool(state.chunks[row.head].offset < 0 or held >= HEADER_BYTES)
    if not _is_record_header(state.arena, offset):
        return True
    return bool(held >= record_bytes(state.arena, offset))


CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION = 0, 90, 100
HARMLESS = {CLOSE_NOTIFY, USER_CANCELED, NO_RENEGOTIATION}
"""They end or decline something in good order; all others say that something is wrong."""

ALERTS = {
    CLOSE_NOTIFY: "close_notify",
    10: "unexpected_message",
    20: "bad_record_mac",
    21: "decryption_failed",
    22: "record_overflow",
    30: "decompression_failure",
    40: "handshake_failure",
    41: "no_certificate",
    42: "bad_certificate",
    43: "unsupported_certificate",
    44: "certificate_revoked",
    45: "certificate_expired",
    46: "certificate_unknown",
    47: "illegal_parameter",
    48: "unknown_ca",
    49: "access_denied",
    50: "decode_error",
    51: "decrypt_error",
    60: "export_restriction",
    70: "protocol_version",
    71: "insufficient_security",
    80: "internal_error",
    86: "inappropriate_fallback",
    USER_CANCELED: "user_canceled",
    NO_RENEGOTIATION: "no_renegotiation",
    109: "missing_extension",
    110: "unsupported_extension",
    111: "certificate_unobtainable",
    112: "unrecognized_name",
    113: "bad_certificate_status_response",
    114: "bad_certificate_hash_value",
    115: "unknown_psk_identity",
    116: "certificate_required",
    117: "general_error",
    120: "no_application_protocol",
    121: "ech_required",
}


def alert_name(number: int) -> str:
    """Return an alert's name, or its number where it has none."""
    return ALERTS.get(number, f"alert_{number}")
