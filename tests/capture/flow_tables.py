"""Flow tables of captures that a test made."""

from collections.abc import Iterable

from kdissect.capture.flow_table import FlowTable
from kdissect.capture.formats.record_reader import ReadOutcome, RecordLayout, RecordReader
from kdissect.capture.index.splits import CaptureFormat, Interface, interface_table
from kdissect.capture.packets.headers import HEAD_BYTES
from tests.capture.memory_storage import MemoryStorage
from tests.helpers.crafted_packets import ethernet, pcap, tcp


def table_of(data: bytes, ports: Iterable[int] = (), flows: FlowTable | None = None) -> FlowTable:
    """Return a flow table with the packets of a pcap file."""
    flows = flows or FlowTable(ports)
    layout = RecordLayout(CaptureFormat.PCAP, False, 16, interface_table((Interface(1, 262144),)))
    reader = RecordReader(MemoryStorage(data), 24, len(data), HEAD_BYTES)
    flows.begin(len(data) // 16)
    outcome = ReadOutcome.MORE
    while outcome in (ReadOutcome.MORE, ReadOutcome.FULL):
        outcome = reader.advance(layout)
        flows.add(reader.buffer, reader.base, reader.records)
    return flows


def opened(ports: Iterable[int]) -> bytes:
    """Return a capture of one request on each connection."""
    return pcap(
        [(1, n, ethernet(tcp(ports=(port, 9092), payload=b"x", seq=n))) for n, port in enumerate(ports)]
    )
