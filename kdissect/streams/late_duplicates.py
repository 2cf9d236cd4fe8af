"""Packets that were captured twice, the second one far behind the first.

Merged captures of two hosts whose clocks differ have such packets.

Pass one recognises copies as far as it remembers packets (`capture.dedup`). A copy that it lets pass repeats
bytes of its stream, as a retransmission does, so `overlaps` asks here. A segment is a copy of one before it
when position in the stream, length, acknowledgment number, flags, window and options are the same, and the
mark that every retransmission gets anew: IPv4 identification or, if that is 0 or missing, a timestamp option
(RFC 7323). The time between the two does not count, because the clocks disagree about it. The headers are
read from the capture again, in front of the payload.
"""

import numpy as np
from numpy.typing import NDArray

from kdissect.array_types import Bools, Bytes, Int64s
from kdissect.streams.payload_reader import plan, read_ranges

IPV4_HEADER, TCP_HEADER, LONGEST_TCP_HEADER = 20, 20, 60
HEAD = IPV4_HEADER + LONGEST_TCP_HEADER  # bytes in front of a payload that are looked at
PLAIN_IPV4, TCP = 0x45, 6
SEQUENCE_MASK = (1 << 20) - 1
TIMESTAMP = (8, 10)  # kind and length of the option


def earlier_copies(path: str, places: Int64s, keys: Int64s, repeats: Bools) -> Int64s:
    """Return for each segment the row of the last one before it that is the same packet, -1 if there is none.

    Rows are segments of one file in the order of the capture; their payload begins at `places`, and `keys`
    (rows of way, sequence number, bytes) say what they bring. Only what is equal to one that `repeats` is
    looked at.
    """
    found = np.full(len(places), -1, np.int64)
    rows = _of_repeated_sequence(keys[:, 1], repeats)
    same = _classes(keys[rows])
    looked_at = np.zeros(int(same.max(initial=0)) + 1, np.bool_)
    looked_at[same[repeats[rows]]] = True
    looked_at &= np.bincount(same, minlength=len(looked_at)) > 1
    chosen = looked_at[same] & (places[rows] >= HEAD)
    rows, same = rows[chosen], same[chosen]
    if len(rows) == 0:
        return found
    packets, marked = _packets(_heads(path, places[rows]), keys[rows, 1])
    rows, same = rows[marked], same[marked]
    equal = _classes(np.column_stack([same, _classes(packets[marked])]))
    order = np.argsort(equal, kind="stable")
    follows = equal[order][1:] == equal[order][:-1]
    found[rows[order][1:][follows]] = rows[order][:-1][follows]
    return found


def _of_repeated_sequence(sequences: Int64s, repeats: Bools) -> Int64s:
    """Return the rows whose sequence number is that of one that repeats, and a few more.

    That is cheap, and leaves few to sort.
    """
    low = sequences & SEQUENCE_MASK
    repeated = np.zeros(SEQUENCE_MASK + 1, np.bool_)
    repeated[low[repeats]] = True
    return np.flatnonzero(repeated[low])


def _heads(path: str, places: Int64s) -> Bytes:
    """Read what stands in front of each payload."""
    starts, stops, at = plan(places - HEAD, np.full(len(places), HEAD), np.zeros(len(places), np.int64))
    read = np.empty(int((stops - starts).sum()), np.uint8)
    read_ranges(path, starts, stops, read, ahead=False)
    return np.lib.stride_tricks.sliding_window_view(read, HEAD)[at]


def _packets(heads: Bytes, sequences: Int64s) -> tuple[Bytes, Bools]:
    """Return of each packet what its copies have in common, and whether that tells it from a retransmission.

    The length field and the sequence number together tell where the TCP header begins.
    """
    # Identification, then TCP's header without ports and checksum.
    common = np.zeros((len(heads), 2 + HEAD), np.uint8)
    marked = np.zeros(len(heads), np.bool_)
    numbers = sequences.astype(">u4").view(np.uint8).reshape(-1, 4)
    for start in range(IPV4_HEADER, HEAD - TCP_HEADER + 1, 4):
        here = np.flatnonzero((heads[:, start + 12] >> 4) * 4 == HEAD - start)
        here = here[(heads[here, start + 4 : start + 8] == numbers[here]).all(axis=1)]
        if len(here) == 0:  # at most two or three lengths are in use
            continue
        ip, tcp = heads[here, start - IPV4_HEADER : start], heads[here, start:]
        plain = (ip[:, 0] == PLAIN_IPV4) & (ip[:, 9] == TCP)
        number = ip[:, 4:6] * plain[:, None]
        options = tcp[:, TCP_HEADER:]
        stamped = ((options[:, :-1] == TIMESTAMP[0]) & (options[:, 1:] == TIMESTAMP[1])).any(axis=1)
        common[here, :2] = number
        common[here, 2 : 2 + 8] = tcp[:, 8:16]  # acknowledgment number, header length, flags, window
        common[here, 10 : 10 + options.shape[1]] = options
        marked[here] = number.any(axis=1) | stamped
    return common, marked


def _classes(keys: NDArray[np.generic]) -> Int64s:
    """Number rows so that equal ones have equal numbers."""
    whole = np.ascontiguousarray(keys)
    rows = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
    return np.unique(rows, return_inverse=True)[1].astype(np.int64)
