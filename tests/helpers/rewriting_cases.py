"""Names, partitions and requests for tests of rewriting."""

from typing import Any

from kdissect.protocol.schema.registry import APIS
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.rewrite.names import Names
from kdissect.replay.rewrite.roles import rewriter
from kdissect.replay.target.fetch_sessions import FetchedPartition, ReadPosition
from kdissect.replay.target.offsets import Positions
from tests.helpers.paper_target import settings

OLD, NEW = b"o" * 16, b"n" * 16


def names(**more: Any) -> Names:
    known = Names(settings(**more), {OLD: "orders"})
    known.learn("t-orders", NEW)
    return known


def rewritten(key: int, version: int, body: dict[str, Any], known: Names | None = None) -> dict[str, Any]:
    rewriter(APIS[key].request, version)(body, known or names())
    return body


class Anything(dict[bytes, str]):
    def get(self, _key: bytes, _default: str | None = None) -> str:  # type: ignore[override]
        return "some"


def values(tree: Any, path: list[str]) -> list[Any]:
    if isinstance(tree, list):
        return [value for each in tree for value in values(each, path)]
    if not path or tree is None:
        return [tree]
    return values(tree.get(path[0]), path[1:])


WHERE = ("orders", 0)


def fetch(session: int, epoch: int, said: dict[int, int], forgotten: tuple[int, ...] = ()) -> dict[str, Any]:
    partitions = [{"partition": number, "fetch_offset": offset} for number, offset in said.items()]
    return {
        "session_id": session,
        "session_epoch": epoch,
        "topics": [{"topic": "orders", "partitions": partitions}],
        "forgotten_topics_data": [{"topic": "orders", "partitions": list(forgotten)}],
    }


def read_partition(
    positions: Positions, partition: TopicPartition, offset: int, node: int = 1
) -> FetchedPartition:
    known, position = positions.partition(partition), ReadPosition(offset)
    fields = {"partition": partition[1], "fetch_offset": offset, "partition_max_bytes": 9}
    return FetchedPartition(partition, node, partition, offset, 9, fields, position, known, known.turn)
