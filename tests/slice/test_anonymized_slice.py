"""`slice --anonymize`: nothing of the user is left in any byte; rows, latencies and checksums are right."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scapy.compat import raw
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.layers.vxlan import VXLAN
from scapy.utils import PcapReader, PcapWriter

from kdissect.cli.main import main
from kdissect.exchanges.anonymize_messages import KEPT_FIELDS, KEPT_ROLES
from kdissect.library.captured_exchanges import read
from kdissect.protocol.codec.messages import encode_request, encode_response
from kdissect.protocol.records.record_decoder import Record, RecordBatch, RecordHeader
from kdissect.protocol.records.record_encoder import encode_batch
from kdissect.protocol.schema.definition import Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS, request_header_version
from kdissect.tables.anonymize import KINDS
from tests.helpers.handmade_capture import write_capture
from tests.helpers.tiers import thorough_after
from tests.slice.sliced_capture import CAPTURES, PLACE, make_slice, needs_tshark, tshark
from tests.slice.test_every_capture import of, tables

MARK = "zqleak"
SAMPLED = ("sampled_bytes", "sampled_lz4_bytes")  # what LZ4 makes of records, which are zeros now
PLAIN = ["clock-step", "transactions", "pause", "steady", "rough-link", "sasl"]


def batch(codec: int) -> bytes:
    header = RecordBatch(0, 2, codec, 0, False, None)
    records = [
        Record(
            header, number, 1000, f"{MARK}-key-{number}".encode(),
            f"{MARK} value {number} {'a' * 90}".encode(),
            (RecordHeader(f"{MARK}-header".encode(), MARK.encode()),),
        )
        for number in range(9)
    ]  # fmt: skip
    return encode_batch(records)


def marked(owner: Message | Field, version: int, codec: int) -> dict[str, Any]:
    """Return a message with the mark in each text and all bytes that are not words of the protocol."""
    tree: dict[str, Any] = {}
    for field in fields_at(owner, version):
        if field.type == "struct":
            inside = marked(field, version, codec)
            tree[field.name] = [inside, inside] if field.array else inside
            continue
        one = _value(field, codec)
        if one is not None:
            tree[field.name] = [one] if field.array else one
    return tree


def _value(field: Field, codec: int) -> Any:
    if field.type in ("string", "int16_string"):
        kept = (field.role or "") in KEPT_ROLES or (field.role is None and field.name in KEPT_FIELDS)
        return "word" if kept else f"{MARK}.{field.name}"
    if field.type == "bytes":
        return f"{MARK} bytes".encode()
    return batch(codec) if field.type == "records" else None


def every_message() -> Iterator[tuple[bool, bytes]]:
    """Yield a request and its response of each API in each version."""
    number = 0
    for key, api in APIS.items():
        for version in api.versions:
            number += 1
            header = {
                "request_api_key": key, "request_api_version": version, "correlation_id": number,
                "client_id": f"{MARK}-client",
            }  # fmt: skip
            if request_header_version(key, version) == 0:
                del header["client_id"]
            codec = number % 5
            request = marked(api.request, version, codec)
            if "acks" in request or key == 0:
                request["acks"] = 1
            yield True, encode_request(header, request)
            answer = encode_response(
                key, version, {"correlation_id": number}, marked(api.response, version, codec)
            )
            yield False, answer


@pytest.mark.slow
def test_nothing_of_any_message_is_left(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "every.pcap", every_message())
    assert MARK.encode() in source.read_bytes()
    path = make_slice(tmp_path, source, "--anonymize")
    data = path.read_bytes()
    assert MARK.encode() not in data
    assert bytes([10, 0, 0, 1]) not in data
    assert bytes([10, 0, 0, 2]) not in data
    before, after = list(read(str(source))), list(read(str(path)))
    assert [one.api_name for one in before] == [one.api_name for one in after]
    assert len(after) == sum(len(api.versions) for api in APIS.values())
    assert [one.latency_ns for one in before] == [one.latency_ns for one in after]
    records = [list(one.records) for one in after]
    assert [len(several) for several in records] == [len(list(one.records)) for one in before]
    assert sum(map(len, records)) > 500
    for record in (record for several in records for record in several):
        assert MARK not in repr(record)
        assert set(record.value) == {0}
        assert len(record.key) == len(f"{MARK}-key-0")
    sizes = [(raw(one)[:0], len(one)) for one in PcapReader(str(source))]
    assert sizes == [(raw(one)[:0], len(one)) for one in PcapReader(str(path))]


def nameless(found: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the rows of tables without names, sorted."""
    return {
        table: sorted(
            json.dumps({name: value for name, value in json.loads(row).items() if name not in dropped})
            for row in texts
        )
        for table, texts in found.items()
        for dropped in [(*KINDS.get(table, ()), *SAMPLED, *PLACE, "connection")]
    }


def secrets_of(path: Path) -> set[bytes]:
    """Return names, keys, values and headers of a capture that are long enough to be searched."""
    found: set[bytes] = set()
    for one in read(str(path)):
        found |= {name.encode() for name in (*one.topics, *one.groups, one.client_id or "")}
        for record in one.records:
            found |= {part for part in (record.key, record.value) if part}
            found |= {part for header in record.headers for part in header if part}
    own = (b"__consumer_offsets", b"__transaction_state")
    return {one for one in found if len(one) >= 6 and len(set(one)) > 2 and one not in own}


@pytest.mark.slow
@pytest.mark.parametrize("name", thorough_after(2, PLAIN))
def test_rows_and_latencies_of_recorded_captures(name: str, tmp_path: Path) -> None:
    source = CAPTURES / f"{name}.pcapng"
    path = make_slice(tmp_path, source, "--anonymize")
    recorded = tables(source, tmp_path / "before")
    before = of((connection for connection, _ in recorded["exchanges"]), recorded)
    # Connections that were TLS are plaintext now, so what TCP and TLS say of them differs by design.
    changed = {one["connection"] for one in map(json.loads, before["connections"]) if one["tls_version"]}
    rewritten = tables(path, tmp_path / "after")
    written = of((connection for connection, _ in rewritten["connections"]), rewritten)
    for found in (before, written):
        found["connections"] = [
            row for row in found["connections"] if json.loads(row)["connection"] not in changed
        ]
    after = nameless(written)
    assert after["exchanges"]
    assert after == nameless(before)
    data, secrets = path.read_bytes(), secrets_of(source)
    assert len(secrets) > 3
    assert [secret for secret in secrets if secret in data] == []
    inside = b"\0".join(
        part
        for one in read(str(path))
        for record in one.records
        for part in (record.key, record.value)
        if part
    )
    assert [secret for secret in secrets if secret in inside] == []


@pytest.mark.slow
def test_tls_becomes_plaintext_with_the_same_latencies(tmp_path: Path) -> None:
    source = CAPTURES / "tls.pcapng"
    path = make_slice(tmp_path, source, "--anonymize")
    before, after = list(read(str(source))), list(read(str(path)))
    shown = [(one.api_name, one.correlation_id, one.latency_ns, one.status, one.errors) for one in before]
    assert shown == [
        (one.api_name, one.correlation_id, one.latency_ns, one.status, one.errors) for one in after
    ]
    assert len(shown) > 50
    data = path.read_bytes()
    assert [secret for secret in secrets_of(source) if secret in data] == []
    assert b"\x16\x03\x01" not in data  # no hello of TLS


def test_a_tls_connection_without_keys_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = CAPTURES / "tls.pcapng"
    closed = make_slice(tmp_path, source, name="closed.pcapng")
    assert main(["slice", str(closed), "--anonymize", "-o", str(tmp_path / "none.pcapng")]) == 2
    assert "no exchange of these captures is selected" in capfd.readouterr().err
    assert not (tmp_path / "none.pcapng").exists()


@pytest.mark.slow
def test_one_key_leads_to_the_same_bytes(tmp_path: Path) -> None:
    source = CAPTURES / "expired.pcapng"
    key = tmp_path / "key"
    key.write_text("a long key that nobody knows\n")
    key.chmod(0o600)
    options = ("--anonymize-key-file", key)
    one = make_slice(tmp_path, source, *options, name="one.pcapng").read_bytes()
    assert make_slice(tmp_path, source, *options, name="two.pcapng").read_bytes() == one
    assert make_slice(tmp_path, source, "--anonymize", name="three.pcapng").read_bytes() != one


@pytest.mark.slow
def test_tunnels_and_their_checksums(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "every.pcap", list(every_message())[:60])
    tunnelled = tmp_path / "tunnelled.pcap"
    with PcapReader(str(source)) as plain, PcapWriter(str(tunnelled), linktype=1) as out:
        for packet in plain:
            outer = IP(src="172.16.10.1", dst="172.16.10.2") / UDP(sport=5, dport=4789) / VXLAN(vni=7)
            wrapped = Ether(src="52:54:00:12:34:56", dst="52:54:00:12:34:57") / outer / packet
            wrapped.time = packet.time
            out.write(wrapped)
    path = make_slice(tmp_path, tunnelled, "--anonymize")
    data = path.read_bytes()
    for gone in (MARK.encode(), bytes([172, 16, 10]), bytes([10, 0, 0, 1]), b"\x52\x54\x00\x12\x34"):
        assert gone not in data
    assert len(list(read(str(path)))) == 30
    if tshark_is_there():
        assert_checksums(path)


def tshark_is_there() -> bool:
    return not needs_tshark.args[0]


def assert_checksums(path: Path) -> None:
    checks = [f"{protocol}.check_checksum:TRUE" for protocol in ("ip", "tcp", "udp")]
    options = [part for check in checks for part in ("-o", check)]
    fields = (
        "-T",
        "fields",
        "-e",
        "ip.checksum.status",
        "-e",
        "tcp.checksum.status",
        "-e",
        "udp.checksum.status",
    )
    lines = tshark(path, "--disable-protocol", "kafka", *options, *fields)
    assert lines
    assert {value for line in lines for part in line.split("\t") for value in part.split(",")} <= {
        "1",
        "2",
        "",
    }
    assert all("1" in line for line in lines)


@needs_tshark
@pytest.mark.slow
@pytest.mark.parametrize("name", thorough_after(2, ["tls", "old-broker", "pause", "rough-link"]))
def test_tshark_finds_checksums_right_and_streams_whole(name: str, tmp_path: Path) -> None:
    source = next(path for path in CAPTURES.iterdir() if path.stem == name)
    path = make_slice(tmp_path, source, "--anonymize")
    assert_checksums(path)
    if name != "rough-link":
        assert tshark(path, "--disable-protocol", "kafka", "-Y", "tcp.analysis.lost_segment") == []
