"""TCP and framing by themselves: segments go into pass two without a capture around them.

A case of `tcp` is packets, each led by 16 bytes (PACKET) and followed by its payload, on two connections. A
case of `framing` is flights as in `tls`, each led by a byte with its side and three with its length, on a
connection whose TCP is in order; `key` says into segments of how many bytes they are cut, `version` how the
connection begins, `response` whether some are lost.
"""

import struct
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from kdissect import limits
from kdissect.capture.segment_index import (
    FLAG_ACK,
    FLAG_B_TO_A,
    FLAG_FIN,
    FLAG_RST,
    FLAG_SYN,
    SEGMENT_COLUMNS,
)
from kdissect.jit.rows import array_of
from kdissect.protocol.schema.registry import highest_versions
from kdissect.streams.endpoints import Endpoints
from kdissect.streams.engine import ExchangeBatch
from kdissect.streams.flow_state import TLS, TLS_PASSED
from kdissect.streams.memory_budget import held_by_each
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from tests.fuzz.case import Case
from tests.helpers.conversations import CLIENT, made_up, recorded
from tests.helpers.hostile_captures import spoil

# Flags, connection, sequence, acknowledgment, 0.1 ms since the one before, captured, cut off.
PACKET = struct.Struct(">BBIIHHH")
TCP_FLAGS = ((2, FLAG_SYN), (16, FLAG_ACK), (1, FLAG_FIN), (4, FLAG_RST))
TICK_NS = 100_000
BEGAN_NS = 1_700_000_000_000_000_000
MOST_SEGMENTS = 400
LITTLE = 3_000  # bytes that may be held, so that there is not enough for all
VERSIONS = np.array(highest_versions(), np.int64)
COUNTED = ["protocol", "requests", "responses", "unanswered", "orphans"]
COUNTED_BY_DIRECTION = ["lost_bytes", "skipped_bytes", "retransmitted", "reordered", "payload_bytes"]
RECORDED = ("sasl.pcapng", "old-broker.pcap", "transactions.pcapng")


class Segments(NamedTuple):
    """Input of `feed_plain`."""

    columns: list[tuple[int, ...]]
    connections: list[int]
    payload: list[bytes]


def tcp_seeds() -> list[Case]:
    """Return short conversations, whole and spoilt in the ways of the hostile tests."""
    wrecks = [spoil(talk, seed) for seed, talk in enumerate([made_up(seed) for seed in range(60)])]
    wrecks += [spoil(talk, seed, ()) for seed, talk in enumerate(_talks())]
    cases = []
    for wreck in wrecks:
        data, last_ns = b"", None
        for packet, payload in zip(wreck.packets[:60], wreck.payloads[:60], strict=True):
            kept = payload[: min(packet.kept, 600)]
            flags = sum(bit for mark, bit in TCP_FLAGS if packet.flags & mark)
            after = 0 if last_ns is None else (packet.time_ns - last_ns) // TICK_NS
            last_ns = packet.time_ns
            ours, theirs = wreck.isn[packet.side], wreck.isn[1 - packet.side]
            sequence = ours + (not flags & FLAG_SYN) + packet.start
            data += PACKET.pack(
                flags | (FLAG_B_TO_A if packet.side != CLIENT else 0),
                0,
                sequence & 0xFFFFFFFF,
                (theirs + 1 + packet.acked) & 0xFFFFFFFF,
                min(max(after, 0), 0xFFFF),
                len(kept),
                min(len(payload) - len(kept), 0xFFFF),
            )
            data += kept
        cases.append(Case(0, 0, False, data[:12_000]))
    return [case for case in cases if case.data]


def framing_seeds() -> list[Case]:
    """Return the streams of short conversations, cut in several ways."""
    talks = [*_talks(), *(made_up(seed) for seed in range(20))]
    cases = []
    for number, talk in enumerate(talks):
        data, size = [], 0
        for one in talk.sent:
            part = talk.streams[one.side][one.start : one.stop]
            if size + len(part) > 6000:
                break
            size += len(part)
            data.append(bytes([one.side]) + len(part).to_bytes(3, "big") + part)
        cases += [
            Case(cut, number % 3, lossy, b"".join(data)) for cut in (13, 400, 9000) for lossy in (False, True)
        ]
    return [case for case in cases if case.data]


def _talks() -> list:
    return [talk for name in RECORDED for talk in recorded(name, 6000, 40)[:12]]


def tcp(case: Case) -> None:
    """The slabs that segments come in change nothing, and no byte is used twice."""
    found = Segments([], [], [])
    at, time = 0, BEGAN_NS
    while at + PACKET.size <= len(case.data) and len(found.columns) < MOST_SEGMENTS:
        flags, connection, sequence, acknowledgment, after, captured, cut = PACKET.unpack_from(case.data, at)
        at += PACKET.size
        payload = case.data[at : at + captured]
        at += len(payload)
        time += (after - 0x10000 if connection & 0x80 else after) * TICK_NS  # the clock may step back
        if payload and flags & (FLAG_SYN | FLAG_RST | FLAG_FIN) == 0:
            flags &= 0x1F
        _add(
            found,
            connection & 1,
            time,
            flags & 0x1F,
            payload,
            cut,
            sequence,
            acknowledgment if flags & FLAG_ACK else 0,
        )
    _same_in_slabs(found, 2)


def framing(case: Case) -> None:
    """The result does not depend on slabs, and no byte is used twice, for any bytes of streams."""
    found = Segments([], [], [])
    chance = Random(len(case.data))
    position, time, at = [0, 0], BEGAN_NS, 0
    if case.version % 3 == 0:
        for side, flags in ((0, FLAG_SYN), (1, FLAG_SYN | FLAG_ACK | FLAG_B_TO_A)):
            _add(found, 0, time, flags, b"", 0, 0xFFFFFFFF, position[1 - side])
    while at + 4 <= len(case.data) and len(found.columns) < MOST_SEGMENTS:
        side, size = case.data[at] & 1, int.from_bytes(case.data[at + 1 : at + 4])
        flight = case.data[at + 4 : at + 4 + size]
        at += 4 + len(flight)
        for start in range(0, len(flight), max(1, case.key, len(flight) // 40)):
            part = flight[start : start + max(1, case.key, len(flight) // 40)]
            time += TICK_NS
            if not case.response or chance.random() > 0.05:
                flags = FLAG_ACK | (FLAG_B_TO_A if side else 0)
                _add(found, 0, time, flags, part, 0, position[side], position[1 - side])
            position[side] = (position[side] + len(part)) & 0xFFFFFFFF
    _same_in_slabs(found, 1)


def _add(
    found: Segments,
    connection: int,
    time: int,
    flags: int,
    payload: bytes,
    cut: int,
    sequence: int,
    acknowledgment: int,
) -> None:
    number = len(found.columns) + 1
    found.columns.append((time, number, 0, len(payload), cut, sequence, acknowledgment, flags))
    found.connections.append(connection)
    found.payload.append(payload)


def _same_in_slabs(found: Segments, connections: int) -> None:
    if found.columns:
        for most_held in (limits.HELD_BYTES, LITTLE):
            whole = _outcome(found, connections, len(found.columns), most_held)
            assert _outcome(found, connections, len(found.columns) // 3 + 1, most_held) == whole


def _outcome(found: Segments, connections: int, slab: int, most_held: int) -> tuple[list, list, list]:
    """Return what is found when so many segments are handed over at a time: exchanges, counts of connections
    and of directions."""
    conversations = new_flow_processor((), VERSIONS, tokens=True, most_held=most_held)
    for number in range(connections):
        conversations.new_connection(Endpoints(bytes(16), 40_000 + number, bytes(16), 9092), BEGAN_NS)
    columns = np.ascontiguousarray(np.array(found.columns, np.int64).reshape(-1, SEGMENT_COLUMNS).T)
    of = np.array(found.connections, np.int64)
    exchanges: list[tuple] = []
    for start in range(0, len(found.columns), slab):
        part = slice(start, start + slab)
        payload = b"".join(found.payload[part])
        for harvest in conversations.feed_plain(
            np.ascontiguousarray(columns[:, part]), of[part].copy(), payload
        ):
            exchanges += _rows(harvest)
        held = held_by_each(conversations.state, connections)
        assert held.sum() == conversations.state.counters.held
    for harvest in conversations.close():
        exchanges += _rows(harvest)
    state = conversations.state
    assert state.counters.held == 0
    facts = array_of(state.connections)[:connections][COUNTED].tolist()
    directions = array_of(state.directions)[: 2 * connections][COUNTED_BY_DIRECTION].tolist()
    framed = [0] * connections
    for row in exchanges:
        framed[row[0]] += sum(len(data) for data in row[-2:])
    for number, fact in enumerate(facts):
        if fact[0] not in (TLS, TLS_PASSED):
            both = array_of(state.directions)[2 * number : 2 * number + 2]
            assert framed[number] + both["skipped_bytes"].sum() <= both["payload_bytes"].sum()
    assert all(count >= 0 for direction in directions for count in direction)
    return exchanges, facts, directions


def _rows(harvest: ExchangeBatch) -> Iterator[tuple]:
    """Yield each exchange without its places in the arena: its connection first, the bytes of its sides
    last."""
    arena = harvest.arena
    for (
        *frames,
        connection,
        ordinal,
        status,
        key,
        version,
        correlation,
        in_flight,
        _,
    ) in harvest.exchanges.tolist():
        sides, facts = [], []
        for start, stop, end, *when in frames:
            assert 0 <= start <= stop <= len(arena)
            assert stop <= end or not start
            sides.append(arena[start:stop].tobytes())
            facts += [end - start, *when]
        yield (connection, *facts, ordinal, status, key, version, correlation, in_flight, *sides)
