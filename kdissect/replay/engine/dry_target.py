"""A target in memory: it takes every request and stores nothing, so it shows how fast the replayer is.

In: frames of requests, which `net.dry_transport` hands over. Out: the responses, without length and
correlation id.

The broker leads all partitions and coordinates all groups. Every topic exists, with as many partitions as any
captured topic has. Batches get offsets that follow each other, fetches bring nothing, and a member is alone
in its group. All other responses have no error, and each field at its default. So a run into it tells what
the replayer can send. Its verdict means nothing.
"""

import hashlib
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import count
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request, encode_response
from kdissect.protocol.schema.definition import Field, Message, fields_at
from kdissect.protocol.schema.registry import APIS
from kdissect.replay.engine.dry_produces import DryProduces
from kdissect.replay.net.dry_transport import DryTransport
from kdissect.replay.net.transport import TcpTransport
from kdissect.replay.settings import DRY_CLUSTER, DRY_TARGET, ReplaySettings

Tree = dict[str, Any]
NODE = 1
BROKER: Tree = {"node_id": NODE, "host": DRY_TARGET[0], "port": DRY_TARGET[1]}
NEVER_ALIKE = frozenset(
    {
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.END_TXN,
        ApiKey.JOIN_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_HEARTBEAT,
    }
)
"""The APIs whose responses have something new each time."""
KEY, PRODUCE = slice(4, 6), ApiKey.PRODUCE.to_bytes(2, "big")
FIRST_WITH_SESSIONS, FLEXIBLE_FETCH, LAST_WITH_REPLICA = 7, 12, 14  # versions of Fetch


class DryBroker:
    """The one broker of the target. A plain object: each process of a run has one of its own."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._produces = DryProduces()
        self._producers, self._sessions, self._members = count(1), count(1), count(1)
        self._names: dict[bytes, str] = {}
        self._fields: dict[int, Callable[[int, Tree], Tree]] = {
            ApiKey.API_VERSIONS: self._versions,
            ApiKey.METADATA: self._metadata,
            ApiKey.DESCRIBE_CLUSTER: self._cluster,
            ApiKey.FIND_COORDINATOR: self._coordinators,
            ApiKey.LIST_OFFSETS: self._bounds,
            ApiKey.JOIN_GROUP: self._joined,
            ApiKey.SYNC_GROUP: self._synced,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.SHARE_GROUP_HEARTBEAT: self._heartbeat,
            ApiKey.INIT_PRODUCER_ID: self._producer,
            ApiKey.END_TXN: self._ended,
        }  # what is not at its default in the responses of an API
        self._answer_again = lru_cache(1 << 14)(self._composed)

    def answer(self, frame: bytes) -> bytes:
        """Return the response to a request."""
        if frame[KEY] == PRODUCE:
            return self._produces.answer(frame)
        key, version = frame[5] | frame[4] << 8, frame[7] | frame[6] << 8
        if key == ApiKey.FETCH:
            return _nothing_fetched(version, self._session(frame, version))
        if key in NEVER_ALIKE:
            return self._composed(key, version, frame[12:])
        if key in self._fields:
            return self._answer_again(key, version, frame[12:])
        return _usual(key, version)

    def _session(self, frame: bytes, version: int) -> int:
        """Return the session of a fetch, a new one if it asks for that; 0 for none."""
        if version < FIRST_WITH_SESSIONS:
            return 0
        client = max(int.from_bytes(frame[12:14], "big", signed=True), 0)
        at = 12 + 2 + client + (version >= FLEXIBLE_FETCH) + 4 * (version <= LAST_WITH_REPLICA)
        at += 4 + 4 + 4 + 1  # wait, least and most bytes, isolation
        epoch = int.from_bytes(frame[at + 4 : at + 8], "big", signed=True)
        if epoch > 0:
            return int.from_bytes(frame[at : at + 4], "big")
        return 0 if epoch else next(self._sessions)

    def _composed(self, key: int, version: int, rest: bytes) -> bytes:
        """Return an answer to what follows the correlation id of a request."""
        front = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4)
        request = decode_request(front + rest).body or {}
        body = default_fields(APIS[key].response, version) | self._fields[key](version, request)
        names = {field.name for field in fields_at(APIS[key].response, version)}
        known = {name: value for name, value in body.items() if name in names}
        return encode_response(key, version, {"correlation_id": 0}, known)[4:]

    # The fields that are not at their defaults

    def _versions(self, _version: int, _request: Tree) -> Tree:
        return {
            "api_keys": [
                {"api_key": key, "min_version": api.live.start, "max_version": api.live.stop - 1}
                for key, api in APIS.items()
            ]
        }

    def _metadata(self, version: int, request: Tree) -> Tree:
        partitions = [
            {"error_code": 0, "partition_index": number, "leader_id": NODE}
            | {"replica_nodes": [NODE], "isr_nodes": [NODE]}
            for number in range(self._partitions)
        ]
        topics = []
        for topic in request.get("topics") or ():
            name = topic["name"] or self._names.get(topic.get("topic_id", b""), "")
            self._names[topic_id(name)] = name
            named = {"error_code": 0, "name": name, "partitions": partitions}
            topics.append(named | ({"topic_id": topic_id(name)} if version >= 10 else {}))
        return {"brokers": [BROKER], "cluster_id": DRY_CLUSTER, "controller_id": NODE, "topics": topics}

    def _cluster(self, _version: int, _request: Tree) -> Tree:
        broker = {"broker_id": NODE, "host": BROKER["host"], "port": BROKER["port"]}
        return {"cluster_id": DRY_CLUSTER, "controller_id": NODE, "brokers": [broker]}

    def _coordinators(self, version: int, request: Tree) -> Tree:
        found = {"error_code": 0} | BROKER
        return (
            found
            if version < 4
            else {"coordinators": [found | {"key": key} for key in request["coordinator_keys"]]}
        )

    def _bounds(self, _version: int, request: Tree) -> Tree:
        topics = [
            {
                "name": topic["name"],
                "partitions": [
                    {"partition_index": each["partition_index"], "error_code": 0, "offset": 0}
                    for each in topic["partitions"]
                ],
            }
            for topic in request["topics"]
        ]
        return {"topics": topics}

    def _joined(self, _version: int, request: Tree) -> Tree:
        member = request["member_id"] or f"member-{next(self._members)}"
        protocol = (request["protocols"] or [{"name": "", "metadata": b""}])[0]
        alone = {"member_id": member, "metadata": protocol["metadata"]}
        return {
            "generation_id": 1,
            "protocol_type": request["protocol_type"],
            "protocol_name": protocol["name"],
            "leader": member,
            "member_id": member,
            "members": [alone],
        }

    def _synced(self, _version: int, request: Tree) -> Tree:
        given = {each["member_id"]: each["assignment"] for each in request["assignments"]}
        return {"assignment": given.get(request["member_id"], b"")}

    def _heartbeat(self, _version: int, request: Tree) -> Tree:
        member = request["member_id"] or f"member-{next(self._members)}"
        epoch = max(request["member_epoch"], 1) if request["member_epoch"] >= 0 else request["member_epoch"]
        return {"member_id": member, "member_epoch": epoch, "heartbeat_interval_ms": 5000}

    def _producer(self, _version: int, _request: Tree) -> Tree:
        return {"producer_id": next(self._producers), "producer_epoch": 0}

    def _ended(self, _version: int, request: Tree) -> Tree:
        return {name: request[name] for name in ("producer_id", "producer_epoch")}


def transport_for(settings: ReplaySettings) -> TcpTransport:
    """Return what carries the bytes of a run: TCP, or the target in memory if that is asked for."""
    if settings.dry_partitions:
        return DryTransport(DryBroker(settings.dry_partitions).answer)
    return TcpTransport(settings.tls)


@cache
def topic_id(name: str) -> bytes:
    """Return the id of a topic of this target."""
    return hashlib.blake2b(name.encode(), digest_size=16).digest()


@lru_cache(1 << 14)
def _nothing_fetched(version: int, session: int) -> bytes:
    body = default_fields(APIS[ApiKey.FETCH].response, version)
    if version >= FIRST_WITH_SESSIONS:
        body["session_id"] = session
    return encode_response(ApiKey.FETCH, version, {"correlation_id": 0}, body)[4:]


@cache
def _usual(key: int, version: int) -> bytes:
    """Return a response with every field at its default, without the correlation id."""
    body = default_fields(APIS[key].response, version)
    return encode_response(key, version, {"correlation_id": 0}, body)[4:]


def default_fields(owner: Message | Field, version: int) -> Tree:
    """Return a struct with nothing in it."""
    return {
        field.name: (
            [] if field.array else default_fields(field, version) if field.type == "struct" else field.default
        )
        for field in fields_at(owner, version)
        if field.tag is None
    }
