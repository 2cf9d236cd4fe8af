"""TLS between two OpenSSLs, on a made-up wire.

The plaintext comes out, however versions, suites, packets and losses are.

The plaintext is known because the test wrote it; the bytes on the wire are OpenSSL's.
"""

import random
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from kdissect.jit.rows import rows_of
from kdissect.streams.flow_state import GAP, STATUS_NAMES, ExchangeRow
from kdissect.streams.tls.decrypt_stage import FEW, held_chunks, let_go, new_flow_processor
from kdissect.streams.tls.keylog import (
    NO_KEYS,
    KeyLog,
    parse,
)
from kdissect.streams.tls.record_layer import Chunk
from kdissect.streams.tls.tls_session import MOST_HELD
from kdissect.tables.connections import ConnectionDetails, connection_rows
from tests.helpers.segment_wire import Wire, request, response
from tests.helpers.state_kernels import put_chunk, state_of
from tests.helpers.tls_ends import CLIENT, HOST, SERVER, Ends, Kind

VERSIONS = np.full(93, 13, np.int64)
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
SUITES_12 = {
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305": "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "AES128-GCM-SHA256": "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA384": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384",
    "AES256-SHA256": "TLS_RSA_WITH_AES_256_CBC_SHA256",
}
ASKED = [request(3, 1, number, bytes([number]) * (50 + number)) for number in range(12)]
TOLD = [response(number, bytes([number]) * (3000 * number)) for number in range(12)]


class Found(NamedTuple):
    """Result of reading one wire."""

    exchanges: list[tuple[int, str, bytes, bytes]]
    times: list[tuple[int, int]]
    row: dict[str, Any]


def talk(kind: Kind, path: Path) -> tuple[Ends, KeyLog]:
    """Twelve requests and their responses, pipelined by three."""
    log = path / "keylog"
    ends = Ends(kind, log).shake()
    assert not ends.error
    for first in range(0, 12, 3):
        for number in range(first, first + 3):
            ends.say(CLIENT, ASKED[number])
        for number in range(first, first + 3):
            ends.say(SERVER, TOLD[number])
    return ends.close(), parse([log.read_bytes()])


def wire_of(ends: Ends, path: Path, size: int = 1448) -> Wire:
    wire = Wire(path / "capture").open()
    for side, flight in ends.flights:
        for at in range(0, len(flight), size):
            wire.send(side, flight[at : at + size])
    return wire.close()


def read(wire: Wire, keys: KeyLog = NO_KEYS, splits: int = 1) -> Found:
    made, pieces = wire.splits(splits)
    conversations = new_flow_processor(made, VERSIONS, keys)
    exchanges, times = [], []

    def take(harvests: Iterator[Any]) -> None:
        for harvest in harvests:
            for row in rows_of(ExchangeRow, harvest.exchanges):
                sides = (
                    harvest.arena[frame.start : frame.stop].tobytes() for frame in (row.request, row.response)
                )
                exchanges.append((row.correlation_id, STATUS_NAMES[row.status], *sides))
                times.append((row.request.last_byte_ns, row.response.last_byte_ns))

    for piece in pieces:
        take(conversations.feed(piece))
    take(conversations.close())
    (row,) = connection_rows(conversations, ConnectionDetails()).to_pylist()
    order = sorted(range(len(exchanges)), key=lambda at: exchanges[at])
    return Found([exchanges[at] for at in order], [times[at] for at in order], row)


WHOLE = [(number, "answered", ASKED[number][4:], TOLD[number][4:]) for number in range(12)]


@pytest.mark.parametrize("suite", SUITES_12)
def test_every_kind_of_suite_of_tls_1_2(suite: str, tmp_path: Path) -> None:
    ends, keys = talk(Kind(V12, suite), tmp_path)
    found = read(wire_of(ends, tmp_path), keys)
    assert found.exchanges == WHOLE
    assert found.row["tls_cipher"] == SUITES_12[suite]
    assert (found.row["protocol"], found.row["tls_version"]) == ("kafka", "TLS 1.2")
    assert (found.row["tls_decryption"], found.row["skipped_bytes"]) == ("whole", 0)


@pytest.mark.parametrize("splits", [1, 2, 9, 60])
@pytest.mark.parametrize("size", [1, 37, 1448, 65_000])
def test_tls_1_3_cut_into_any_packets_and_splits(size: int, splits: int, tmp_path: Path) -> None:
    if size == 1:
        ends = Ends(Kind(), tmp_path / "keylog").shake()
        ends.say(CLIENT, ASKED[0]).say(SERVER, TOLD[0])
        keys = parse([(tmp_path / "keylog").read_bytes()])
    else:
        ends, keys = talk(Kind(), tmp_path)
    found = read(wire_of(ends, tmp_path, size), keys, splits)
    assert found.exchanges == (WHOLE[:1] if size == 1 else WHOLE)
    assert found.row["tls_sni"] == HOST
    assert found.row["tls_decryption"] == "whole"


def test_plaintext_has_the_time_of_the_last_packet_of_its_record(tmp_path: Path) -> None:
    ends, keys = talk(Kind(), tmp_path)
    wire = wire_of(ends, tmp_path)
    last_of_flight = {
        (side, index): None for index, (side, _) in enumerate(ends.flights)
    }  # fmt: skip
    at = 3  # after the handshake of TCP
    for index, (side, flight) in enumerate(ends.flights):
        at += -(-len(flight) // 1448)
        last_of_flight[side, index] = wire.packets[at - 1][0]
    found = read(wire, keys)
    times = set(last_of_flight.values())
    assert all(request_ns in times and response_ns in times for request_ns, response_ns in found.times)
    assert sorted(found.times) == found.times


def test_without_keys_the_handshake_is_told_and_the_rest_is_skipped(tmp_path: Path) -> None:
    for version, name in ((V12, "TLS 1.2"), (V13, "TLS 1.3")):
        ends, _ = talk(Kind(version, protocols=("kafka-like",)), tmp_path)
        found = read(wire_of(ends, tmp_path))
        assert found.exchanges == []
        row = found.row
        assert (row["protocol"], row["tls_version"], row["tls_outcome"]) == ("tls", name, "completed")
        assert row["tls_decryption"] == "no_keys"
        assert row["tls_undecrypted_bytes"] == row["skipped_bytes"] > 30_000
        assert row["tls_alpn"] == ("kafka-like" if version == V12 else None)  # TLS 1.3 encrypts it
        assert row["tls_client_certificate"] is (False if version == V12 else None)


def test_resumed_sessions(tmp_path: Path) -> None:
    for version in (V12, V13):
        log = tmp_path / version.name
        first = Ends(Kind(version), log).shake().say(CLIENT, ASKED[0]).say(SERVER, TOLD[0])
        session = first.ends[CLIENT].session
        assert session is not None
        again = Ends(Kind(version), log, session=session, contexts=first.contexts).shake()
        assert again.ends[CLIENT].session_reused
        again.say(CLIENT, ASKED[1]).say(SERVER, TOLD[1])
        found = read(wire_of(again, tmp_path), parse([log.read_bytes()]))
        assert found.exchanges == WHOLE[1:2]
        assert found.row["tls_resumed"] is True


FAILURES = [
    (Kind(V12, trusted=False), "unknown_ca", "client"),
    (Kind(V13, trusted=False), "unknown_ca", "client"),
    (Kind(V12, ask_certificate=True), "handshake_failure", "server"),
    (Kind(V13, ask_certificate=True), "certificate_required", "server"),
]


@pytest.mark.parametrize(("kind", "alert", "by"), FAILURES)
def test_failed_handshakes(kind: Kind, alert: str, by: str, tmp_path: Path) -> None:
    ends = Ends(kind, tmp_path / "keylog").shake()
    assert ends.error
    keys = parse([(tmp_path / "keylog").read_bytes()])
    row = read(wire_of(ends, tmp_path), keys).row
    assert (row["tls_outcome"], row["tls_alert"], row["tls_alert_by"]) == ("failed", alert, by)
    row = read(wire_of(ends, tmp_path)).row
    hidden = kind.version == V13 and by == "server"
    assert (row["tls_outcome"], row["tls_alert_by"]) == ("failed", by)
    assert row["tls_alert"] == ("encrypted" if hidden else alert)


def test_a_hello_to_a_server_without_tls(tmp_path: Path) -> None:
    hello = Ends(Kind(), tmp_path / "keylog")
    with pytest.raises(ssl.SSLWantReadError):
        hello.ends[CLIENT].do_handshake()
    hello._carry(CLIENT)
    row = read(wire_of(hello, tmp_path)).row
    assert (row["protocol"], row["tls_outcome"], row["tls_version"]) == ("tls", "unanswered", None)


def test_keys_of_another_session_open_nothing(tmp_path: Path) -> None:
    ends, keys = talk(Kind(), tmp_path)
    text = (tmp_path / "keylog").read_bytes()
    words = [line.split() for line in text.splitlines() if not line.startswith(b"#")]
    wrong = parse([b"\n".join(b" ".join((label, who, secret[::-1])) for label, who, secret in words)])
    assert len(wrong) == len(keys) == 1
    found = read(wire_of(ends, tmp_path), wrong)
    assert found.exchanges == []
    assert (found.row["tls_decryption"], found.row["protocol"]) == ("failed", "tls")


@pytest.mark.parametrize(
    "kind", [Kind(), Kind(V12, "ECDHE-RSA-AES128-GCM-SHA256"), Kind(V12, "AES256-SHA256")]
)
def test_any_lost_packet_costs_what_was_in_it(kind: Kind, tmp_path: Path) -> None:
    """Each packet behind the handshake is lost in turn.

    Only the exchanges in the records that it touches are hurt.
    """
    ends, keys = talk(kind, tmp_path)
    whole = wire_of(ends, tmp_path)
    payload = [index for index, packet in enumerate(whole.packets) if packet[4]]
    handshake = 10  # packets, the tickets among them
    for lost in payload[handshake:-2][::4]:
        wire = Wire(
            whole.path, packets=[packet for index, packet in enumerate(whole.packets) if index != lost]
        )
        found = read(wire, keys)
        intact = [row for row in found.exchanges if row in WHOLE]
        # Each message is in records of its own; how long what is lost was is known, but for CBC, which pads.
        assert len(intact) >= len(WHOLE) - (
            2 if "SHA256" in kind.ciphers and "GCM" not in kind.ciphers else 1
        ), lost
        hurt = {row[0] for row in found.exchanges if row not in WHOLE}
        assert hurt <= set(range(12))
        assert found.row["lost_bytes"] == len(whole.packets[lost][4])
        assert found.row["tls_decryption"] == "partly" or found.row["tls_undecrypted_bytes"] == 0


@pytest.mark.parametrize(
    "looks", [b"\x14\x03\x03\0\1\1", b"\x15\x03\x03\0\2\2\x14", b"\x15\x03\x02\x40\0", b"\x16\x03\x01\x40\0"]
)
def test_what_looks_like_a_record_behind_a_loss_is_none_unless_it_opens(looks: bytes, tmp_path: Path) -> None:
    ends, keys = talk(Kind(), tmp_path)
    whole = wire_of(ends, tmp_path)
    packets = list(whole.packets)
    lost = max(index for index, packet in enumerate(packets) if packet[4][:4] == b"\x17\x03\x03\x2e")
    # The rest of a record that cannot be opened any more.
    behind = packets[lost + 1]
    packets[lost + 1] = (*behind[:4], looks + behind[4][len(looks) :], *behind[5:])
    del packets[lost]
    found = read(Wire(whole.path, packets=packets), keys)
    assert len([row for row in found.exchanges if row in WHOLE]) == len(WHOLE) - 1
    assert (found.row["tls_alert"], found.row["tls_outcome"]) == (None, "completed")


def test_a_lost_server_hello_is_made_up_for_in_tls_1_3(tmp_path: Path) -> None:
    ends, keys = talk(Kind(), tmp_path)
    whole = wire_of(ends, tmp_path, 65_000)
    lost = next(index for index, packet in enumerate(whole.packets) if packet[4] and packet[6] == SERVER)
    kept = [packet for index, packet in enumerate(whole.packets) if index != lost]
    found = read(Wire(whole.path, packets=kept), keys)
    assert [row for row in found.exchanges if row in WHOLE][2:] == WHOLE[2:]
    assert (found.row["tls_version"], found.row["tls_cipher"]) == ("TLS 1.3", "TLS_AES_256_GCM_SHA384")


def test_a_connection_older_than_the_capture(tmp_path: Path) -> None:
    ends, keys = talk(Kind(), tmp_path)
    whole = wire_of(ends, tmp_path)
    found = read(Wire(whole.path, packets=whole.packets[14:]), keys)
    assert found.exchanges == []
    told = [found.row[name] for name in ("protocol", "tls_decryption", "tls_outcome", "tls_version")]
    assert told == ["tls", "no_handshake", "not_seen", None]


@pytest.mark.parametrize("seed", range(40))
def test_damaged_records_give_no_wrong_exchange(seed: int, tmp_path: Path) -> None:
    """Bytes are changed, packets lost, doubled and swapped: what comes out was said, or is a part of it."""
    chance = random.Random(seed)
    ends, keys = talk(Kind(chance.choice([V12, V13])), tmp_path)
    wire = wire_of(ends, tmp_path, chance.choice([100, 1448, 9000]))
    packets = list(wire.packets)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(3, len(packets))
        what = chance.randrange(4)
        if what == 0:
            del packets[at]
        elif what == 1:
            packets.insert(at, packets[at])
        elif what == 2 and at + 1 < len(packets):
            packets[at], packets[at + 1] = packets[at + 1], packets[at]
        elif packets[at][4]:
            spoilt = bytearray(packets[at][4])
            spoilt[chance.randrange(len(spoilt))] ^= 1 << chance.randrange(8)
            packets[at] = (*packets[at][:4], bytes(spoilt), *packets[at][5:])
    found = read(Wire(wire.path, packets=packets), keys, chance.randrange(1, 5))
    bodies = {row[0]: (row[2], row[3]) for row in WHOLE}
    for number, _, asked, told in found.exchanges:
        if number in bodies:
            assert bodies[number][0].startswith(asked) or bodies[number][0].endswith(asked)
            assert bodies[number][1].startswith(told)
    assert found.row["tls_decryption"] is not None or found.row["protocol"] == "unknown"


def test_chunks_and_gaps_come_in_order() -> None:
    state = state_of(arena=b".abc....defg")
    put_chunk(state, 1, 0, 1, 3, 1)
    put_chunk(state, 1, 3, GAP, 10, 2)
    put_chunk(state, 1, 13, 8, 4, 3)
    assert held_chunks(state, 1) == [
        Chunk(b"abc", 3, 1001, 1),
        Chunk(None, 10, 1002, 2),
        Chunk(b"defg", 4, 1003, 3),
    ]
    let_go(state, 1, 2, False)
    assert held_chunks(state, 1)[0] == Chunk(b"c", 1, 1001, 1)
    let_go(state, 1, 12, True)
    assert held_chunks(state, 1) == [Chunk(b"efg", 3, 1003, 3)]
    assert state.directions[1].scanned.position == 17 + MOST_HELD
    assert held_chunks(state, 0) == []


def test_any_number_of_chunks_is_shown() -> None:
    count = 5 * FEW
    state = state_of(arena=bytes(count))
    for number in range(count):
        put_chunk(state, 0, number, number, 1, number)
    assert [chunk.packet for chunk in held_chunks(state, 0)] == list(range(count))
