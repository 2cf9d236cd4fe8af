"""What can be made before the clock starts is made then: whole frames of requests that wait for nothing.

Reads that go to any node, and Produce requests outside transactions that are no retries, are rewritten, converted, routed and
encoded ahead of the run. What remains for its moment is the correlation id, and of idempotent batches their header: producer,
epoch, sequence and a checksum patched from these alone; it is laid over the frame. Leaders that move make what is ready
stale; then each request takes its ordinary course. Frames beyond `MOST_BYTES` wait on the shelf instead of in memory.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kdissect.protocol.headers import decode_request, encode_request
from kdissect.protocol.record_sets import BATCH_HEADER
from kdissect.replay.accounting import Bucket
from kdissect.replay.courses.expected import Expected, Topic, expected
from kdissect.replay.courses.produce import Sending, captured_offsets, make_parts, told, wanted_now
from kdissect.replay.courses.reads import metadata_tree
from kdissect.replay.courses.stage import LEAST_METADATA, OF_GROUP, OF_GROUPS, OF_TRANSACTION, Stage
from kdissect.replay.linking.switchboard import UNEXPECTED
from kdissect.replay.loading.items import METADATA, PRODUCE, Item
from kdissect.replay.loading.shelf import Place, Shelf
from kdissect.replay.mapping.producers import Where
from kdissect.replay.mapping.topology import CUTS
from kdissect.replay.rewriting.batches import Batch, rewritten
from kdissect.replay.rewriting.roles import Refused
from kdissect.replay.rewriting.versions import FIRST_BATCH_VERSION
from kdissect.replay.settings import Timestamps
from kdissect.replay.steps import Part

MOST_BYTES = 256 << 20
EMPTY: dict[Where, int] = {}

_LATER = (Bucket.POLICY, "takes its ordinary course")


class Frame(NamedTuple):
    """An encoded part; of Produce also its batches, and what its answer looks like if all is well."""

    part: Part
    shelved: Place | None = None  # where its bytes are, if not in the part
    sendings: tuple[Sending, ...] = ()
    places: tuple[int, ...] = ()  # for each batch its position in the bytes
    expected: Expected | None = None


class Ready(NamedTuple):
    """A request that can be sent at once."""

    frames: tuple[Frame, ...]
    offsets: dict[Where, int] = EMPTY  # where the captured cluster put its batches
    produced: list[tuple[str, int]] | None = None
    nodes: tuple[int, ...] = ()  # where each batch goes

    @property
    def numbered(self) -> bool:
        """Whether its batches get a producer and a number when their turn comes."""
        sendings = self.frames[0].sendings
        return bool(sendings) and sendings[0].batch.producer_id >= 0


def make_ready(stage: Stage, shelf: Shelf, items: Iterable[Item]) -> dict[int, Ready]:
    """Prepare every request that can be."""
    found: dict[int, Ready] = {}
    room = MOST_BYTES
    for item in items:
        if item.refusal is not None or not can_be_ready(stage, item):
            continue
        try:
            ready = _ready_produce(stage, item) if item.request.key == PRODUCE else _ready_read(stage, item)
        except (Refused, *UNEXPECTED):
            stage.notes.pop(item.request.index, None)
            continue  # said when its turn comes
        room -= sum(len(frame.part.ready) for frame in ready.frames)
        if room < 0:
            ready = ready._replace(frames=tuple(_shelved(frame, shelf) for frame in ready.frames))
        found[item.request.index] = ready
    return found


def _shelved(frame: Frame, shelf: Shelf) -> Frame:
    return frame._replace(shelved=shelf.put(frame.part.ready), part=frame.part._replace(ready=b""))


def can_be_ready(stage: Stage, item: Item) -> bool:
    """Tell whether a request needs nothing that only the run can tell."""
    key = item.request.key
    if key == PRODUCE:
        moves = stage.settings.timestamps is not Timestamps.KEEP
        return not (
            item.transaction
            or item.request.index in stage.loaded.retries
            or item.request.index in stage.loaded.repeats
            or item.request.index in stage.loaded.after
            or moves
            or stage.settings.rewrites_off
        )
    return key == METADATA or (key in PLAIN and key not in CUTS)


PLAIN = (
    frozenset({10, 16, 29, 32, 35, 41, 46, 48, 50, 55, 60, 65, 66, 74, 75})
    - OF_GROUP.keys()
    - OF_GROUPS.keys()
    - OF_TRANSACTION.keys()
)


def _ready_read(stage: Stage, item: Item) -> Ready:
    body = decode_request(stage.frame(item.request.frame) or b"").body or {}
    if item.request.key == METADATA:
        version = stage.version(item, least=LEAST_METADATA)
        body = metadata_tree(stage, item, body, version)
    else:
        version = stage.version(item)
        body = stage.carried(item, body, version)
    return Ready((Frame(_encoded(Part(item.request.key, version, body, client_id=stage.client_id(item)))),))


def _ready_produce(stage: Stage, item: Item) -> Ready:
    body = decode_request(stage.frame(item.request.frame) or b"").body or {}
    version = stage.version(item)
    if version < FIRST_BATCH_VERSION:
        raise Refused(*_LATER)
    chosen = wanted_now(stage, item, body, version)
    sendings = {
        (stage.names.topic(where[0]), where[1]): _as_sent(where, batch)
        for where, batches in chosen
        for batch in batches
    }
    if len(sendings) < sum(len(batches) for _, batches in chosen):
        raise Refused(*_LATER)  # several batches for one partition go one after another
    parts = make_parts(stage, item, body, version, list(sendings.values()))
    frames = tuple(_frame(stage, part, sendings) for part in parts)
    in_order = [sending for frame in frames for sending in frame.sendings]
    nodes = tuple(frame.part.node for frame in frames for _ in frame.sendings)
    return Ready(frames, captured_offsets(stage, item) or EMPTY, told(stage, in_order), nodes)


def _as_sent(where: Where, batch: Batch) -> Sending:
    """Give a batch as a client sends it; an idempotent one gets its header when its turn comes."""
    same = batch.producer_id, batch.producer_epoch, batch.base_sequence
    return Sending(where, batch, None, -1, rewritten(batch, *same))


def _frame(stage: Stage, part: Part, sendings: dict[Where, Sending]) -> Frame:
    """Encode a part, and find its batches in it: they stand in its order, with little between them."""
    whole = _encoded(part)
    asked: list[tuple[Topic, tuple[int, ...]]] = []
    inside, places, at = [], [], 0
    for topic in part.body["topic_data"]:
        name = topic.get("name") or stage.names.name_of(topic["topic_id"]) or ""
        indices = tuple(each["index"] for each in topic["partition_data"])
        asked.append((topic.get("name") or topic["topic_id"], indices))
        for index in indices:
            sending = sendings[name, index]
            at = whole.ready.index(sending.data[:BATCH_HEADER], at)
            places.append(at)
            at += len(sending.data)
            head = sending.batch._replace(data=sending.batch.data[:BATCH_HEADER])
            inside.append(sending._replace(batch=head, data=b""))
    return Frame(whole, None, tuple(inside), tuple(places), expected(part.version, tuple(asked)))


def _encoded(part: Part) -> Part:
    header = {
        "request_api_key": part.key,
        "request_api_version": part.version,
        "correlation_id": 0,
        "client_id": part.client_id,
    }
    frame = encode_request(header, part.body)
    return part._replace(ready=len(frame).to_bytes(4, "big") + frame, body={})
