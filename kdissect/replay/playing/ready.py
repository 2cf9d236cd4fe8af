"""What can be made before the clock starts is made then: whole frames of requests that wait for nothing.

Reads that go to any node, and Produce requests outside transactions that are no retries, are rewritten, converted, routed and
encoded ahead of the run. What remains for its moment is the correlation id, and of idempotent batches their header: producer,
epoch, sequence and a checksum patched from these alone. Leaders that move make what is ready stale; then each
request takes its ordinary course. So does everything that would not fit into `MOST_BYTES` of memory.
"""

from typing import NamedTuple

from kdissect.protocol.headers import decode_request, encode_request
from kdissect.protocol.record_sets import BATCH_HEADER
from kdissect.replay.accounting import Bucket
from kdissect.replay.courses.produce import (
    Sending,
    captured_offsets,
    learn,
    make_parts,
    numbered,
    produce,
    until_free,
    wanted_now,
    way_of,
)
from kdissect.replay.courses.reads import metadata_tree
from kdissect.replay.courses.stage import LEAST_METADATA, OF_GROUP, OF_GROUPS, OF_TRANSACTION, Stage
from kdissect.replay.loading.items import METADATA, PRODUCE, Item
from kdissect.replay.mapping.producers import Where
from kdissect.replay.mapping.topology import CUTS
from kdissect.replay.rewriting.batches import rewritten
from kdissect.replay.rewriting.roles import Refused
from kdissect.replay.rewriting.versions import FIRST_BATCH_VERSION
from kdissect.replay.settings import Timestamps
from kdissect.replay.steps import Answer, Ask, Course, Part

MOST_BYTES = 256 << 20
HEED_EVERY = 16  # of the answers that nobody waits for, so many are looked at for leaders that moved


_LATER = (Bucket.POLICY, "takes its ordinary course")


class Ready(NamedTuple):
    """The parts of a request, encoded; for Produce also its batches and where each lies in the frames."""

    parts: tuple[Part, ...]
    batches: tuple[Sending, ...] = ()
    places: tuple[tuple[int, int], ...] = ()  # for each batch (part, position in its frame)
    offsets: dict[Where, int] = {}  # noqa: RUF012 - never changed


def make_ready(stage: Stage) -> dict[int, Ready]:
    """Prepare every request that can be."""
    found: dict[int, Ready] = {}
    room = MOST_BYTES
    for item in stage.loaded.items:
        if item.refusal is not None or not can_be_ready(stage, item):
            continue
        try:
            ready = _ready_produce(stage, item) if item.request.key == PRODUCE else _ready_read(stage, item)
        except Refused:
            continue  # said when its turn comes
        room -= sum(len(part.ready) for part in ready.parts)
        if room < 0:
            break
        found[item.request.index] = ready
    stage.notes.clear()  # noted again when it is sent
    stage.counts.clear()
    return found


def can_be_ready(stage: Stage, item: Item) -> bool:
    """Tell whether a request needs nothing that only the run can tell."""
    key = item.request.key
    if key == PRODUCE:
        moves = stage.settings.timestamps is not Timestamps.KEEP
        return not (
            item.transaction
            or item.request.index in stage.loaded.retries
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


def ready_course(stage: Stage, item: Item, ready: Ready) -> Course:
    """Send what is ready."""
    if not ready.batches:
        answers: list[Answer] = yield Ask(ready.parts)
        if item.request.index % HEED_EVERY == 0:
            stage.heed(answers)
        return answers
    parts = ready.parts
    batches = list(ready.batches)
    if ready.batches[0].batch.producer_id >= 0:
        chosen = [(each.where, [each.batch]) for each in batches]
        yield from until_free(stage, item, chosen)
        if any(
            parts[at].node != way_of(stage, item, each.where)[1]
            for each, (at, _) in zip(batches, ready.places, strict=True)
        ):
            body = decode_request(stage.frame(item.request.frame) or b"").body or {}
            return (yield from produce(stage, item, body))  # its leader moved meanwhile
        (batches,) = numbered(stage, item, chosen)
        frames = [bytearray(part.ready) for part in parts]
        for sending, (part, at) in zip(batches, ready.places, strict=True):
            frames[part][at : at + BATCH_HEADER] = sending.data[:BATCH_HEADER]
        parts = tuple(part._replace(ready=bytes(frame)) for part, frame in zip(parts, frames, strict=True))
    answers = yield Ask(parts)
    learn(stage, item, batches, answers, ready.offsets)
    stage.heed(answers)
    return answers


def _ready_read(stage: Stage, item: Item) -> Ready:
    body = decode_request(stage.frame(item.request.frame) or b"").body or {}
    if item.request.key == METADATA:
        version = stage.version(item, least=LEAST_METADATA)
        body = metadata_tree(stage, item, body, version)
    else:
        version = stage.version(item)
        body = stage.carried(item, body, version)
    part = Part(item.request.key, version, body, client_id=stage.client_id(item))
    return Ready((_encoded(part),))


def _ready_produce(stage: Stage, item: Item) -> Ready:
    body = decode_request(stage.frame(item.request.frame) or b"").body or {}
    version = stage.version(item)
    if version < FIRST_BATCH_VERSION:
        raise Refused(*_LATER)
    chosen = wanted_now(stage, item, body, version)
    if any(len(batches) != 1 for _, batches in chosen):
        raise Refused(*_LATER)
    sendings = tuple(Sending(where, batches[0], None, -1, batches[0].data) for where, batches in chosen)
    plain = tuple(numbered_later(sending) for sending in sendings)
    parts = tuple(_encoded(part) for part in make_parts(stage, item, body, version, list(plain)))
    places = tuple(_place(parts, sending) for sending in plain)
    return Ready(parts, plain, places, captured_offsets(stage, item))


def numbered_later(sending: Sending) -> Sending:
    """Give a batch as a client sends it; an idempotent one gets its header when its turn comes."""
    batch = sending.batch
    return sending._replace(
        data=rewritten(batch, batch.producer_id, batch.producer_epoch, batch.base_sequence)
    )


def _place(parts: tuple[Part, ...], sending: Sending) -> tuple[int, int]:
    """Find a batch in the encoded parts. Two that are equal are equal wherever they are found."""
    for number, part in enumerate(parts):
        at = part.ready.find(sending.data)
        if at >= 0 and part.ready.find(sending.data, at + 1) < 0:
            return number, at
    raise Refused(*_LATER)


def _encoded(part: Part) -> Part:
    header = {
        "request_api_key": part.key,
        "request_api_version": part.version,
        "correlation_id": 0,
        "client_id": part.client_id,
    }
    return part._replace(
        ready=encode_request(header, part.body), body=part.body if part.key != PRODUCE else {}
    )
