"""Requests as whole frames, and how a Produce request becomes one in the plain way.

In: a captured request. Out: its parts as bytes (`PreparedRequest`), made by the functions of the handlers. A
Produce request is decoded and encoded again; `alike_produces` has the way for those like an earlier one.
"""

from typing import NamedTuple

from kdissect.protocol.codec.messages import encode_request
from kdissect.protocol.records.batches import HEADER_BYTES
from kdissect.replay.disposition import Disposition, SkipRequest
from kdissect.replay.effects import ANY, Part
from kdissect.replay.engine.fast_path.expected_answer import ExpectedAnswer, TopicKey, expected_answer
from kdissect.replay.handlers.fetch import FetchQuestion
from kdissect.replay.handlers.produce import chosen_now
from kdissect.replay.handlers.produce_batches import (
    OutgoingBatch,
    make_parts,
    route_of,
    sent_batches,
    version_of,
)
from kdissect.replay.handlers.produce_delivery import captured_offsets
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import Batches
from kdissect.replay.rewrite.batch_rewrite import CapturedBatch, rewritten
from kdissect.replay.rewrite.versions import FIRST_BATCH_VERSION

NO_OFFSETS: dict[TopicPartition, int] = {}
LEFT_TO_HANDLER = (Disposition.POLICY, "is left to its handler")


class PreparedPart(NamedTuple):
    """An encoded part; of Produce also its batches, and the response if all goes well."""

    part: Part
    batches: tuple[OutgoingBatch, ...] = ()
    positions: tuple[int, ...] = ()  # of each batch, in the bytes
    expected: ExpectedAnswer | None = None


class PreparedRequest(NamedTuple):
    """A request that can be sent at once.

    In parts, or a fetch, whose parts need its positions and sessions.
    """

    parts: tuple[PreparedPart, ...]
    question: FetchQuestion | None = None
    captured_offsets: dict[TopicPartition, int] = NO_OFFSETS  # of its batches, on the captured cluster
    produced: Batches | None = None  # its batches, for the files of the run
    nodes: tuple[int, ...] = ()  # where each batch goes, and of a fetch its first partition
    size: int = 0  # bytes of memory
    numbered: bool = False  # its batches get a producer and a number when its turn comes

    @classmethod
    def of(
        cls,
        parts: tuple[PreparedPart, ...],
        captured_offsets: dict[TopicPartition, int] = NO_OFFSETS,
        produced: Batches | None = None,
        nodes: tuple[int, ...] = (),
        numbered: bool = False,
    ) -> "PreparedRequest":
        """Return a request of encoded parts, with its size."""
        size = sum(len(each.part.ready) for each in parts)
        return cls(parts, None, captured_offsets, produced, nodes, size, numbered)

    @property
    def first_node(self) -> int | None:
        """Return the node that it goes to first; None if that is not known yet."""
        return self.parts[0].part.node if self.parts else next(iter(self.nodes), None)


def prepare_produce(context: ReplayContext, item: ReplayItem) -> PreparedRequest:
    """Prepare the batches of a Produce request.

    Raise SkipRequest if its handler has to wait, or to send several rounds.
    """
    body, version = context.captured.request(item.request), version_of(context, item)
    if version < FIRST_BATCH_VERSION:
        raise SkipRequest(*LEFT_TO_HANDLER)
    chosen = chosen_now(context, item, body, version)
    batches = {
        (context.names.topic(partition[0]), partition[1]): _outgoing(partition, batch)
        for partition, captured in chosen
        for batch in captured
    }
    several = len(batches) < sum(len(captured) for _, captured in chosen)
    leaderless = any(route_of(context, item, partition)[1] == ANY for partition, _ in chosen)
    nameless = item.transaction and any(each.batch.producer_id < 0 for each in batches.values())
    if several or leaderless or nameless:
        raise SkipRequest(*LEFT_TO_HANDLER)
    outgoing = make_parts(context, item, body, version, list(batches.values()))
    parts = tuple(_produce_part(context, part, batches) for part in outgoing)
    in_order = [batch for each in parts for batch in each.batches]
    return PreparedRequest.of(
        parts,
        captured_offsets=captured_offsets(context, item) or NO_OFFSETS,
        produced=tuple(sent_batches(context, in_order)),
        nodes=tuple(each.part.node for each in parts for _ in each.batches),
        numbered=in_order[0].batch.producer_id >= 0,
    )


def _outgoing(partition: TopicPartition, batch: CapturedBatch) -> OutgoingBatch:
    """Return a batch as a client sends it; an idempotent one gets its header when its turn comes."""
    captured = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return OutgoingBatch(partition, batch, None, -1, rewritten(batch, *captured))


def _produce_part(
    context: ReplayContext, part: Part, batches: dict[TopicPartition, OutgoingBatch]
) -> PreparedPart:
    """Encode a part, and find its batches in the bytes: they stand in its order, with little between them."""
    encoded = encoded_part(part)
    asked: list[tuple[TopicKey, tuple[int, ...]]] = []
    inside, positions, position = [], [], 0
    for topic in part.body["topic_data"]:
        name = topic.get("name") or context.names.name_of(topic["topic_id"]) or ""
        indices = tuple(fields["index"] for fields in topic["partition_data"])
        asked.append((topic.get("name") or topic["topic_id"], indices))
        for index in indices:
            outgoing = batches[name, index]
            position = encoded.ready.index(outgoing.data[:HEADER_BYTES], position)
            positions.append(position)
            position += len(outgoing.data)
            header = outgoing.batch._replace(data=outgoing.batch.data[:HEADER_BYTES])
            inside.append(outgoing._replace(batch=header, data=b""))
    expected = expected_answer(part.version, tuple(asked))
    return PreparedPart(encoded, tuple(inside), tuple(positions), expected)


def encoded_part(part: Part) -> Part:
    """Return a part with its frame."""
    header = {
        "request_api_key": part.key,
        "request_api_version": part.version,
        "correlation_id": 0,
        "client_id": part.client_id,
    }
    frame = encode_request(header, part.body)
    return part._replace(ready=len(frame).to_bytes(4, "big") + frame, body={})
