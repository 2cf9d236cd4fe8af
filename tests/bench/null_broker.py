"""A broker that takes everything and does nothing, as fast as Python can: what a replayer is measured against.

`python tests/bench/null_broker.py` prints its port. It answers Metadata for any topic with one partition count, and every other
request with the answer that has every field at its default.
"""

import asyncio
import sys
from functools import cache

import uvloop

from kdissect.protocol.headers import decode_request, encode_response
from kdissect.protocol.layout import Field, Message, fields_at
from kdissect.protocol.schema import APIS

PARTITIONS = 6
PRODUCE, METADATA, API_VERSIONS = 0, 3, 18


def default_tree(owner: Message | Field, version: int) -> dict[str, object]:
    """Give a struct with nothing in it."""
    return {
        field.name: (
            [] if field.array else default_tree(field, version) if field.type == "struct" else field.default
        )
        for field in fields_at(owner, version)
        if field.tag is None
    }


@cache
def canned(key: int, version: int) -> bytes:
    """Give an answer without its correlation id."""
    body = default_tree(APIS[key].response, version)
    if key == API_VERSIONS:
        body["api_keys"] = [
            {"api_key": each, "min_version": api.live.start, "max_version": api.live.stop - 1}
            for each, api in APIS.items()
        ]
    if key == PRODUCE:  # one partition: what the benchmark sends
        partition = default_tree(next(f for f in APIS[0].response.fields if f.name == "responses"), version)
        partition["partition_responses"] = [{"index": 0, "error_code": 0, "base_offset": 0}]
        body["responses"] = [partition]
    return encode_response(key, version, {"correlation_id": 0}, body)[4:]


class NullBroker(asyncio.Protocol):
    """One connection."""

    port = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.buffer = transport, bytearray()

    def data_received(self, data: bytes) -> None:
        buffer = self.buffer
        buffer += data
        at, out = 0, bytearray()
        while len(buffer) - at >= 4:
            size = int.from_bytes(buffer[at : at + 4], "big")
            if len(buffer) - at - 4 < size:
                break
            start = at + 4
            key = int.from_bytes(buffer[start : start + 2], "big")
            version = int.from_bytes(buffer[start + 2 : start + 4], "big")
            body = (
                self.metadata(bytes(buffer[start : start + size]))
                if key == METADATA
                else canned(key, version)
            )
            out += (len(body) + 4).to_bytes(4, "big") + buffer[start + 4 : start + 8] + body
            at = start + size
        del buffer[:at]
        if out:
            self.transport.write(bytes(out))  # type: ignore[attr-defined]

    def metadata(self, frame: bytes) -> bytes:
        whole = decode_request(frame)
        version = whole.header["request_api_version"]
        partitions = [
            {
                "error_code": 0,
                "partition_index": number,
                "leader_id": 1,
                "replica_nodes": [1],
                "isr_nodes": [1],
            }
            for number in range(PARTITIONS)
        ]
        topics = [
            {
                "error_code": 0,
                "name": topic["name"],
                "topic_id": topic["name"].encode().ljust(16)[:16],
                "partitions": partitions,
            }
            for topic in (whole.body or {}).get("topics") or ()
        ]
        for topic in topics if version < 10 else ():
            del topic["topic_id"]
        brokers = [{"node_id": 1, "host": "127.0.0.1", "port": self.port}]
        body = {"brokers": brokers, "cluster_id": "null", "controller_id": 1, "topics": topics}
        return encode_response(METADATA, version, {"correlation_id": 0}, body)[4:]


async def main() -> None:
    """Serve until the end of the process."""
    server = await asyncio.get_running_loop().create_server(NullBroker, "127.0.0.1", 0)
    NullBroker.port = server.sockets[0].getsockname()[1]
    sys.stdout.write(f"{NullBroker.port}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
