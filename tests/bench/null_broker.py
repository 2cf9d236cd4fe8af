"""A broker that takes everything and does nothing, as fast as Python can: what a replayer is measured against.

    python tests/bench/null_broker.py

prints its port, and on the end of its standard input the processor time that it took. It answers Metadata for any topic with one
partition count, Produce 9 to 12 of one partition as written, and every other request with the answer that has every field at
its default. What it was asked before (all but the correlation id, and of Produce the records) it answers from memory.
"""

import asyncio
import json
import resource
import sys
from functools import lru_cache

import uvloop

from kdissect.protocol.headers import decode_request, encode_response
from kdissect.protocol.layout import Field, Message, fields_at
from kdissect.protocol.schema import APIS

PARTITIONS = 6
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18
CORRELATION, CLIENT = 8, 12  # where they begin in a frame with its length
port = 0


def answer(frame: bytes | memoryview) -> bytes:
    """Answer a request; both are frames, the request with its length and the answer without."""
    key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    said = bytes(frame[CLIENT : _records_at(frame)]) if key == PRODUCE else bytes(frame[CLIENT:])
    return bytes(frame[CORRELATION:CLIENT]) + _canned(key, version, said)


def _records_at(frame: bytes | memoryview) -> int:
    """Find the end of what names the one partition of a flexible Produce request."""
    at = CLIENT + 2 + int.from_bytes(frame[CLIENT : CLIENT + 2], "big") + 1  # client id, no tags
    at += max(frame[at], 1)  # transactional id
    at += 2 + 4 + 1  # acks, timeout, one topic
    at += frame[at]  # its name
    return at + 1 + 4  # one partition, its number


@lru_cache(1 << 16)
def _canned(key: int, version: int, said: bytes) -> bytes:
    """Give an answer without its correlation id."""
    body = _default(APIS[key].response, version)
    if key == API_VERSIONS:
        body["api_keys"] = [
            {"api_key": each, "min_version": api.live.start, "max_version": api.live.stop - 1}
            for each, api in APIS.items()
        ]
    elif key == PRODUCE:
        name = said[2 + int.from_bytes(said[:2], "big") + 1 :][1 + 2 + 4 + 1 :]
        partition = {"index": int.from_bytes(name[-4:], "big"), "error_code": 0, "base_offset": 0}
        body["responses"] = [{"name": name[1 : name[0]].decode(), "partition_responses": [partition]}]
    elif key == METADATA:
        front = b"".join(number.to_bytes(2, "big") for number in (key, version)) + bytes(4)
        body = _metadata(version, decode_request(front + said).body or {})
    return encode_response(key, version, {"correlation_id": 0}, body)[4:]


def _default(owner: Message | Field, version: int) -> dict[str, object]:
    """Give a struct with nothing in it."""
    return {
        field.name: (
            [] if field.array else _default(field, version) if field.type == "struct" else field.default
        )
        for field in fields_at(owner, version)
        if field.tag is None
    }


def _metadata(version: int, asked: dict[str, object]) -> dict[str, object]:
    partitions = [
        {"error_code": 0, "partition_index": number, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
        for number in range(PARTITIONS)
    ]
    names = [topic["name"] for topic in asked.get("topics") or ()]  # type: ignore[attr-defined]
    topics = [
        {"error_code": 0, "name": name, "partitions": partitions}
        | ({"topic_id": name.encode().ljust(16)[:16]} if version >= 10 else {})
        for name in names
    ]
    brokers = [{"node_id": 1, "host": "127.0.0.1", "port": port}]
    return {"brokers": brokers, "cluster_id": "null", "controller_id": 1, "topics": topics}


class NullBroker(asyncio.Protocol):
    """One connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, b""

    def data_received(self, data: bytes) -> None:
        data = self.buffer + data if self.buffer else data
        at, out = 0, []
        while len(data) - at >= 4:
            size = int.from_bytes(data[at : at + 4], "big") + 4
            if len(data) - at < size:
                break
            said = answer(data[at : at + size])
            out += (len(said).to_bytes(4, "big"), said)
            at += size
        self.buffer = data[at:]
        if out:
            self.transport.write(b"".join(out))  # type: ignore[attr-defined]


async def main() -> None:
    """Serve until standard input ends."""
    global port  # noqa: PLW0603
    loop = asyncio.get_running_loop()
    server = await loop.create_server(NullBroker, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"user_s": used.ru_utime, "system_s": used.ru_stime}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
