"""A broker that takes everything and does nothing, as fast as Python can: what a replayer is measured
against.

    python -m tests.bench.null_broker [HOST]

prints its port at that address of this machine (127.0.0.1), and on the end of its standard input the
processor time that it took. It answers Metadata for any topic with one partition count, Produce 9 to 13 of
one partition as written, a fetch in the session of a topic with a number with one record at odd epochs and
with nothing at even ones, JoinGroup as to a member that is alone, and every other request with the answer
that has every field at its default. It answers a request that it was asked before (all but the correlation
id, of Produce the records, of Fetch its epoch) from memory.
"""

import asyncio
import json
import resource
import sys
from functools import lru_cache

import uvloop

from kdissect.protocol.codec.messages import decode_request, encode_response
from kdissect.protocol.records.batches import PREFIX_BYTES
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.engine.dry_target import default_fields
from kdissect.replay.rewrite.batch_rewrite import modern

HOST = sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else "127.0.0.1"
PARTITIONS = 6
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, JOIN_GROUP, API_VERSIONS = 0, 1, 3, 10, 11, 18
FLEXIBLE = 9  # the first version of Produce with compact lengths
BY_ID = 13  # the first version of Produce and of Fetch with topic ids
CORRELATION, CLIENT = 8, 12  # where they begin in a frame with its length
MEMBER = "member"
OLD_MESSAGE = bytes.fromhex("0000000000000000 0000000e b7bb0ed5 0000 ffffffff 00000000".replace(" ", ""))
RECORDS = modern(OLD_MESSAGE).data
port = 0


def topic_id(name: str) -> bytes:
    """Return the id of a topic."""
    return name.encode().ljust(16)[:16]


def answer(frame: bytes | memoryview) -> bytes:
    """Answer a request; both are frames, the request with its length and the answer without."""
    key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
    if key == FETCH:
        return _fetched(frame, version)
    said = bytes(frame[CLIENT : _records_at(frame, version)]) if key == PRODUCE else bytes(frame[CLIENT:])
    return bytes(frame[CORRELATION:CLIENT]) + _canned(key, version, said)


def _fetched(frame: bytes | memoryview, version: int) -> bytes:
    """Answer Fetch 15 or 16; a session has the number of its topic plus 1, which stands at the end of the
    topic's name."""
    at = CLIENT + 2 + int.from_bytes(frame[CLIENT : CLIENT + 2], "big") + 1 + 4 + 4 + 4 + 1
    session, epoch = int.from_bytes(frame[at : at + 4], "big"), int.from_bytes(frame[at + 4 : at + 8], "big")
    if not epoch:
        number = bytes(frame[at + 9 : at + 25]).strip().rpartition(b"-")[2]
        session = int(number) + 1 if number.isdigit() else 0
    head, tail = _canned_fetch(version, session, epoch % 2)
    offset = (epoch // 2).to_bytes(8, "big") if tail else b""
    return b"".join((frame[CORRELATION:CLIENT], head, offset, tail))


@lru_cache(1 << 12)
def _canned_fetch(version: int, session: int, more: int) -> tuple[bytes, bytes]:
    """Return what stands before the offset of the record in an answer, and what stands behind it."""
    partition = {"partition_index": 0, "error_code": 0, "high_watermark": 1 << 40, "log_start_offset": 0}
    partition |= {"aborted_transactions": None, "records": RECORDS}
    name = f"t-topic-{session - 1}"
    topic = {"topic_id": topic_id(name)} if version >= BY_ID else {"topic": name}
    topic |= {"partitions": [partition]}
    body = {"error_code": 0, "session_id": session, "responses": [topic] if more else []}
    whole = encode_response(FETCH, version, {"correlation_id": 0}, body)[4:]
    if not more:
        return whole, b""
    at = whole.index(RECORDS[:PREFIX_BYTES])
    return whole[:at], whole[at + 8 :]


def _records_at(frame: bytes | memoryview, version: int) -> int:
    """Find the end of what names the one partition of a flexible Produce request."""
    at = CLIENT + 2 + int.from_bytes(frame[CLIENT : CLIENT + 2], "big") + 1  # client id, no tags
    at += max(frame[at], 1)  # transactional id
    at += 2 + 4 + 1  # acks, timeout, one topic
    at += 16 if version >= BY_ID else frame[at]  # its id or name
    return at + 1 + 4  # one partition, its number


@lru_cache(1 << 16)
def _canned(key: int, version: int, said: bytes) -> bytes:
    """Return an answer without its correlation id."""
    body = default_fields(APIS[key].response, version)
    if key == API_VERSIONS:
        body["api_keys"] = [
            {"api_key": each, "min_version": api.live.start, "max_version": api.live.stop - 1}
            for each, api in APIS.items()
        ]
    elif key == PRODUCE and version >= FLEXIBLE:
        rest = said[2 + int.from_bytes(said[:2], "big") + 1 :]
        name = rest[max(rest[0], 1) :][2 + 4 + 1 :]
        partition = {"index": int.from_bytes(name[-4:], "big"), "error_code": 0, "base_offset": 0}
        topic = {"topic_id": name[:16]} if version >= BY_ID else {"name": name[1 : name[0]].decode()}
        body["responses"] = [topic | {"partition_responses": [partition]}]
    elif key == METADATA:
        front = b"".join(number.to_bytes(2, "big") for number in (key, version)) + bytes(4)
        body = _metadata(version, decode_request(front + said).body or {})
    elif key == FIND_COORDINATOR:
        front = b"".join(number.to_bytes(2, "big") for number in (key, version)) + bytes(4)
        body = _coordinators(version, decode_request(front + said).body or {})
    elif key == JOIN_GROUP:
        body |= {"generation_id": 1, "protocol_name": "range", "leader": MEMBER, "member_id": MEMBER}
        body["members"] = [{"member_id": MEMBER, "metadata": b""}]
    return encode_response(key, version, {"correlation_id": 0}, body)[4:]


def _metadata(version: int, asked: dict[str, object]) -> dict[str, object]:
    partitions = [
        {"error_code": 0, "partition_index": number, "leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}
        for number in range(PARTITIONS)
    ]
    names = [topic["name"] for topic in asked.get("topics") or ()]  # type: ignore[attr-defined]
    topics = [
        {"error_code": 0, "name": name, "partitions": partitions}
        | ({"topic_id": topic_id(name)} if version >= 10 else {})
        for name in names
    ]
    brokers = [{"node_id": 1, "host": HOST, "port": port}]
    return {"brokers": brokers, "cluster_id": "null", "controller_id": 1, "topics": topics}


def _coordinators(version: int, asked: dict[str, object]) -> dict[str, object]:
    where = {"error_code": 0, "node_id": 1, "host": HOST, "port": port}
    keys = asked.get("coordinator_keys") or ()
    if version < 4:
        return where
    return {"coordinators": [where | {"key": key} for key in keys]}  # type: ignore[attr-defined]


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
    server = await loop.create_server(NullBroker, HOST, 0)
    port = server.sockets[0].getsockname()[1]
    print(port, flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({"user_s": used.ru_utime, "system_s": used.ru_stime}), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
