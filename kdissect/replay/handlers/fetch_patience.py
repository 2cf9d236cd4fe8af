"""How long a fetch waits for what its captured answer had: in the replayer, and at the leaders of the target.

In: a captured fetch whose turn has come, and what the capture tells of its answer. Out: what has to end
before it is sent (`missing_before_fetch`), and how long and for how many bytes each leader waits
(`patience_by_node`).

- A client fetches again when it has the answer to its last fetch, unless it did not wait for that in the
  capture.
- A position can be translated when all that the capture has before it is written.
- At `asap` and `think` a fetch is sent when what its answer had is written. At `schedule` it is sent at its
  time, and waits at the leader, as it did in the capture.
- A client that reads on without having missed anything waits for as many bytes as its answer had: with them
  come the markers behind transactions, which would else end its next long poll at once.
- A client that has read already what its answer had waits no longer than the captured broker took. At `asap`
  such a fetch, and one whose captured answer was empty, hardly wait at all.
- A leader hands out one batch even to a fetch that wants no byte. So a fetch leaves out a partition in which
  the client is ahead of the capture, and at `asap` each one of which its answer had nothing that the client
  does not have yet. Else a client reads on, fetch by fetch, while writers are ahead of it. If its partition
  then goes to another member of the group, that one reads the same again.
- One captured broker responded when the first partition had something. Several leaders may respond here, and
  one with nothing would delay those who have something: it waits no longer than the captured broker took.
"""

from bisect import bisect_right
from collections.abc import Mapping

from kdissect.replay.effects import Answer
from kdissect.replay.handlers.fetch_encoding import Patience
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_fetch_sessions import FetchedPartitions
from kdissect.replay.load.captured_reads import PartitionRead
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.settings import Pace
from kdissect.replay.target.fetch_sessions import FetchedPartition, PartitionsByNode, ReadPosition

SHORTEST_MS = 1  # of a fetch that need not wait
MOST_BYTES = 0x7FFFFFFF  # that a fetch can ask for
WAITED_SHARE = 0.9  # of its time: a fetch that took so long got what it has because the time was over


def missing_before_fetch(context: ReplayContext, item: ReplayItem, named: FetchedPartitions) -> int | None:
    """Return a request that has to end before a fetch is sent; None if it may be sent."""
    order, connection = context.order, item.request.connection
    last = context.fetches.state(connection).last
    if last >= 0 and not context.gates.has_ended(last):
        answered_ns = context.loaded.items[last].request.answered_ns
        if answered_ns is not None and answered_ns <= item.request.first_ns:
            return last
    for partition, fields in named.items():
        position, offset = context.fetches.position(connection, partition), fields["fetch_offset"]
        if position.target is None or position.captured != offset:
            missing = order.missing_write(partition, offset, item.request.index)
            if missing is not None:
                return missing
    if context.settings.pace is Pace.SCHEDULE:
        return None
    return order.missing_of_answer(item.request.index)


def patience_by_node(
    context: ReplayContext, item: ReplayItem, nodes: PartitionsByNode, captured: Patience
) -> Mapping[int, Patience]:
    """Return how long each leader waits, and note how far the captured client has read with this answer."""
    wanted = dict.fromkeys(nodes, 0)  # bytes
    reads = context.loaded.reads.reads(item.request.index)
    for partition, read in reads.items():
        topic, number = context.names.topic(partition[0]), partition[1]
        node = context.cluster.leader(topic, number)
        sent = nodes.get(node, {}).get((topic, number))
        position = context.fetches.position(item.request.connection, partition)
        if sent is not None:
            offset, exact = (
                sent["fetch_offset"],
                context.positions.partition(partition).written(position.captured),
            )
            wanted[node] += _wanted_bytes(context, item, partition, read, position, offset)
            position.missed = read.size + (position.missed if exact is not None and offset < exact else 0)
        position.captured = read.following
    exact = not context.fetches.state(item.request.connection).sizes_differ
    return {
        node: Patience(
            _wait_ms(context, item, captured.max_wait_ms, size, bool(reads), len(nodes) > 1),
            min(max(captured.min_bytes, size if exact else 0), MOST_BYTES),
        )
        for node, size in wanted.items()
    }


def most_bytes(context: ReplayContext, item: ReplayItem, partition: FetchedPartition) -> int:
    """Return how many bytes of a partition a fetch takes, so that it does not read ahead of its capture.

    0: the partition is left out. A leader hands out one batch to all others, however few bytes they take. A
    client that is behind takes what it has missed as well. Nobody is told the offsets of records without
    acknowledgement, so where there are some, nobody knows who is ahead.
    """
    offsets, offset, position = partition.offsets, partition.fields["fetch_offset"], partition.position
    exact = offsets.written(position.captured)
    if exact is None or partition.captured in context.loaded.reads.unacknowledged:
        return partition.most_bytes
    read = context.loaded.reads.reads(item.request.index).get(partition.captured)
    behind = offset < exact
    if not behind and (read is None or _has_read(context, item, partition.captured, read, offset)):
        return 0 if offset > exact or context.settings.pace is Pace.ASAP else 1
    size = (position.missed if behind else 0) + (read.size if read else 0)
    if context.fetches.state(item.request.connection).sizes_differ:
        size *= 2
    return min(max(size, 1), partition.most_bytes)


def _has_read(
    context: ReplayContext, item: ReplayItem, partition: TopicPartition, read: PartitionRead, offset: int
) -> bool:
    """Return whether a client at an offset of the target has what a captured answer had of a partition.

    That counts for one whose records this run does not write, too.
    """
    end = context.positions.partition(partition).written(read.following)
    missing = context.order.missing_write(partition, read.following, item.request.index)
    return missing is None and (end is None or offset >= end)


def _wanted_bytes(
    context: ReplayContext,
    item: ReplayItem,
    partition: TopicPartition,
    read: PartitionRead,
    position: ReadPosition,
    offset: int,
) -> int:
    """Return how many bytes of a partition a fetch at an offset of the target waits for.

    0: the client has them already, or this run does not write them. 1: any.
    """
    if _has_read(context, item, partition, read, offset):
        return 0
    exact = context.positions.partition(partition).written(position.captured)
    return read.size if exact == offset else 1


def _wait_ms(
    context: ReplayContext, item: ReplayItem, wait_ms: int, wanted: int, had_records: bool, shared: bool
) -> int:
    if wanted:
        return wait_ms
    if context.settings.pace is Pace.ASAP:
        return min(SHORTEST_MS, wait_ms)
    return shared_wait_ms(context, item, wait_ms) if shared or had_records else wait_ms


def scaled_wait_ms(context: ReplayContext, captured_ms: int) -> int:
    """Return how long a fetch may wait for data: as captured, at the speed of the run."""
    if captured_ms <= 0:
        return 0
    return max(int(captured_ms / context.settings.speed), SHORTEST_MS)


WAITS_MS = (0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)


def shared_wait_ms(context: ReplayContext, item: ReplayItem, wait_ms: int) -> int:
    """Return how long a leader with nothing may wait: about as long as the captured broker took."""
    took_ns = item.request.service_ns
    if took_ns is None:
        return wait_ms
    took_ms = took_ns / 1e6 / context.settings.speed
    return min(WAITS_MS[bisect_right(WAITS_MS, took_ms) - 1], wait_ms)


def note_patience(context: ReplayContext, item: ReplayItem, answer: Answer) -> None:
    """Note that a leader has records in other sizes, if it had some and waited for more in vain.

    An answer with as many bytes as were wanted is late for another reason.
    """
    part, wanted = answer.part, answer.part.body.get("min_bytes", 0)
    if wanted <= 1 or answer.sent_ns is None or answer.received_ns is None:
        return
    waited_ms = (answer.received_ns - answer.sent_ns) / 1e6
    size = len(answer.frame or b"")
    if waited_ms >= WAITED_SHARE * part.wait_ms and EMPTY_BYTES < size < wanted:
        context.fetches.state(item.request.connection).sizes_differ = True


EMPTY_BYTES = 256  # of a response with no records, or hardly any
