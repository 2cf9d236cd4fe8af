"""One connection that carries more than there is memory: neither pass holds it as a whole."""

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.protocol.codec.messages import encode_request, encode_response
from tests.helpers.command import environment
from tests.helpers.crafted_packets import ACK, SYN, ethernet, tcp

REQUESTS, VALUE_BYTES, SEGMENT_BYTES = 300, 1_000_000, 60_000
MORE_BYTES = 96 << 20  # than the process had before it began
CLIENT, BROKER, PORTS = "10.0.0.1", "10.0.0.2", (40000, 9092)

DISSECT = """
import resource, sys
from pathlib import Path
import pyarrow as pa
from kdissect.capture.inputs import CaptureFile
from kdissect.capture.index.index import index_captures
from kdissect.spark import tasks as steps
from kdissect.spark.startup.warmup import warm_up

warm_up()
splits = index_captures([CaptureFile(sys.argv[1], "")], 16 << 20, range_bytes=64 << 20).splits
status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
most = int(status["VmData"].split()[0]) * 1024 + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_DATA, (most, most))
ordinals = (pa.record_batch({"split": [split.index]}) for split in splits)
answered = requested = 0
for name, rows in steps.tables_step(steps.scan_step(ordinals, splits, ()), splits, ["exchanges"]):
    if name == "exchanges":
        answered += rows["status"].to_pylist().count("answered")
        requested += sum(rows["request_bytes"].to_pylist())
print(answered, requested)
"""


def batch() -> bytes:
    from kafka.record import MemoryRecordsBuilder

    builder = MemoryRecordsBuilder(magic=2, compression_type=0, batch_size=2 * VALUE_BYTES)
    builder.append(timestamp=1_700_000_000_000, key=None, value=bytes(VALUE_BYTES))
    builder.close()
    return bytes(builder.buffer())


def framed(message: bytes) -> bytearray:
    return bytearray(struct.pack(">i", len(message)) + message)


def write(path: Path) -> int:
    """Write the capture; give the bytes of all requests."""
    records = [{"name": "t", "partition_data": [{"index": 0, "records": batch()}]}]
    body = {"acks": 1, "timeout_ms": 1000, "topic_data": records}
    header = {"request_api_key": 0, "request_api_version": 8, "correlation_id": 0, "client_id": "bulk"}
    request = framed(encode_request(header, {"transactional_id": None, **body}))
    answer = framed(encode_response(0, 8, {"correlation_id": 0}, {"responses": [], "throttle_time_ms": 0}))
    sent, heard = 1, 1
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1))

        def put(time_us: int, way: tuple[str, str], ports: tuple[int, int], **segment: object) -> None:
            frame = ethernet(tcp(*way, ports, **segment))  # type: ignore[arg-type]
            file.write(struct.pack("<IIII", 1_700_000_000, time_us, len(frame), len(frame)) + frame)

        there, back = (CLIENT, BROKER), (BROKER, CLIENT)
        put(0, there, PORTS, flags=SYN, seq=0)
        put(1, back, PORTS[::-1], flags=SYN | ACK, seq=0, ack=1)
        for number in range(REQUESTS):
            request[8:12] = answer[4:8] = struct.pack(">i", number)
            for at in range(0, len(request), SEGMENT_BYTES):
                part = bytes(request[at : at + SEGMENT_BYTES])
                put(10 + number * 1000, there, PORTS, payload=part, seq=sent, ack=heard)
                sent += len(part)
            put(500 + number * 1000, back, PORTS[::-1], payload=bytes(answer), seq=heard, ack=sent)
            heard += len(answer)
    return REQUESTS * (len(request) - 4)


@pytest.mark.slow
def test_more_than_memory_holds(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    requested = write(path)
    assert requested > 3 * MORE_BYTES - 20_000_000
    command = [sys.executable, "-P", "-c", DISSECT, str(path), str(MORE_BYTES)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.stdout.split() == [str(REQUESTS), str(requested)], done.stderr[-2000:]
