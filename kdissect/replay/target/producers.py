"""Producer ids, epochs, sequence numbers and transactions of the target, in the place of the captured ones.

A captured (producer id, epoch) stands for an *identity* that the target issued in this run: by the replayed
InitProducerId or EndTxn (KIP-890) whose captured answer told it, or by one that the replayer asks for
because the capture begins later. An epoch that an idempotent client raised by itself (KIP-360) is raised
alike.

Sequences are counted anew for each identity and partition, so that holes in the capture leave none on the
target. The captured number only tells a retry from a new batch. The target takes the batches of a partition
only in the order of their numbers, so those under way at one time must go one way: one connection to one
node keeps their order, two do not. When a batch fails, those behind it fail too. The next batch waits
until nothing is under way, and counting goes on behind what the target took. A batch that was refused for the
moment only goes first, in the order of the capture. If nobody can tell whether the target took a batch (its
answer was lost), going on would let the next one pass for its repetition, which is answered and not written.
So the epoch is raised, as a client does (KIP-360), and counting starts anew.

The requests of a transactional id are sent in the captured order as far as they conflict: a batch waits for
the partitions to be added, the end waits for all that belongs to the transaction. All transactional ids
here are the captured ones.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kdissect.replay.effects import Gate
from kdissect.replay.identifiers import ProducerKey, Route, TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import RequestGates


class ProducerIdentity(NamedTuple):
    """A producer id and epoch of the target."""

    producer_id: int
    producer_epoch: int


@dataclass(slots=True)
class SequenceNumbering:
    """Sequences of one identity in one partition; they are not wrapped here as they are on the wire."""

    epoch: int
    following: int = 0
    taken: int = 0  # behind the last record that the target took
    under_way: int = 0
    unsure: int = 0  # batches of which nobody knows whether the target took them
    broken: bool = False  # one of those under way failed
    given_up: bool = False  # one of those under way failed, and is not sent again
    route: Route = (-1, -1)  # by which the last batch went
    again: set[int] = field(default_factory=set)  # requests with a batch that is to be sent again
    gate: Gate = field(default_factory=Gate)  # opens when it is worth looking again

    def takes(self, route: Route, index: int) -> bool:
        """Return whether a batch of a request may be numbered and sent now."""
        if self.again and min(self.again) < index:
            return False
        return not self.under_way or (route == self.route and not self.broken)

    def look_again(self) -> None:
        """Wake all who wait, to see whether it is their turn."""
        gate, self.gate = self.gate, Gate()
        gate.open()


class Producers:
    """The producers of a pass."""

    def __init__(self, attempts: Collection[int] = ()) -> None:
        """`attempts` are the captured requests whose outcome decides whether a retry is sent."""
        self._attempts = attempts
        self.turn = 0  # counts what was learnt
        self._identities: dict[ProducerKey, ProducerIdentity] = {}
        self._numberings: dict[tuple[ProducerIdentity, TopicPartition], SequenceNumbering] = {}
        self._taken: dict[tuple[int, TopicPartition], bool] = {}  # (captured request, partition) -> taken
        self._raises: Counter[tuple[int, TopicPartition]] = (
            Counter()
        )  # epochs that were raised here, by producer id
        self.asking: dict[ProducerKey, Gate] = {}  # captured producers for which an id is asked for now

    def learn(self, key: ProducerKey, identity: ProducerIdentity) -> None:
        """Note that a captured id stands for one of the target."""
        self.turn += 1
        self._identities[key] = identity

    def identity(self, key: ProducerKey) -> ProducerIdentity | None:
        """Return what a captured id stands for; None if nothing yet."""
        return self._identities.get(key)

    def known(self, key: ProducerKey) -> ProducerIdentity:
        """Return what a captured id stands for. Raise LookupError if nothing yet."""
        return self._identities[key]

    def raised(self, key: ProducerKey) -> ProducerIdentity | None:
        """Return the identity of an epoch that a client raised (KIP-360); None for a new producer."""
        earlier = [epoch for pid, epoch in self._identities if pid == key[0] and epoch < key[1]]
        if not earlier:
            return None
        base = self._identities[key[0], max(earlier)]
        identity = ProducerIdentity(base.producer_id, base.producer_epoch + key[1] - max(earlier))
        self.learn(key, identity)
        return identity

    def numbering(self, identity: ProducerIdentity, partition: TopicPartition) -> SequenceNumbering:
        """Return the numbering of a partition."""
        known = self._numberings.get((identity, partition))
        if known is None:
            epoch = identity.producer_epoch + self._raises[identity.producer_id, partition]
            known = self._numberings[identity, partition] = SequenceNumbering(epoch)
        return known

    def start_anew(self, identity: ProducerIdentity, partition: TopicPartition) -> None:
        """Raise the epoch for a partition in which nothing is under way."""
        numbering = self.numbering(identity, partition)
        self._raises[identity.producer_id, partition] += 1
        numbering.epoch += 1
        numbering.taken = numbering.unsure = 0

    def number(self, numbering: SequenceNumbering, records: int, route: Route) -> int:
        """Return the first sequence number of a batch that is sent now."""
        if not numbering.under_way:
            numbering.following = numbering.taken
            numbering.broken = numbering.given_up = False
        sequence = numbering.following
        numbering.following += records
        numbering.under_way += 1
        numbering.route = route
        return sequence

    def ended(self, numbering: SequenceNumbering, sequence: int, records: int, taken: bool | None) -> None:
        """Note whether the target took a batch; None: nobody knows.

        Batches need not end in the order of their numbers.

        A request ends with the last of its parts, so one for two leaders may end after the one behind it.
        """
        numbering.under_way -= 1
        if taken:
            numbering.taken = max(numbering.taken, sequence + records)
        else:
            numbering.broken = True
            numbering.unsure += taken is None
        if not numbering.under_way and numbering.gate.waiting:
            numbering.look_again()

    def note_attempt(self, index: int, partition: TopicPartition, taken: bool) -> None:
        """Note whether the target took a request's batches of a partition, if a retry depends on it."""
        if index in self._attempts:
            self._taken[index, partition] = taken

    def took(self, index: int, partition: TopicPartition) -> bool | None:
        """Return whether the target took an attempt; None: it was never sent, or nobody knows."""
        return self._taken.get((index, partition))


class Transactions:
    """The transactions of a pass, by captured transactional id."""

    def __init__(
        self, items: Sequence[ReplayItem], order: Mapping[str, Sequence[int]], gates: RequestGates
    ) -> None:
        """`order` has the requests of each transactional id, in the order of the capture."""
        self._items, self._order, self._gates = items, order, gates
        self._open: dict[str, ProducerIdentity] = {}
        self._added: dict[str, set[TopicPartition]] = defaultdict(set)
        self._ended: dict[str, int] = {}  # how many of the first requests have ended

    @property
    def open(self) -> Mapping[str, ProducerIdentity]:
        """The transactions that are open on the target, each with its producer."""
        return self._open

    def is_open(self, transaction: str | None) -> bool:
        """Return whether something was sent in a transaction that has not ended."""
        return (transaction or "") in self._open

    def note_open(self, transaction: str | None, identity: ProducerIdentity) -> None:
        """Note that something was sent in a transaction."""
        self._open[transaction or ""] = identity

    def end(self, transaction: str | None) -> None:
        """Note that a transaction has ended: the next one begins without partitions."""
        self._added[transaction or ""].clear()
        self._open.pop(transaction or "", None)

    def close(self, transaction: str) -> None:
        """Note that a transaction was aborted at the end of the pass."""
        self._open.pop(transaction, None)

    def add_partitions(self, transaction: str | None, partitions: Iterable[TopicPartition]) -> None:
        """Note that partitions were added to a transaction."""
        self._added[transaction or ""].update(partitions)

    def has_partition(self, transaction: str | None, partition: TopicPartition) -> bool:
        """Return whether a partition was added to a transaction."""
        return partition in self._added[transaction or ""]

    def earlier(self, item: ReplayItem, conflicts: Callable[[int], bool]) -> Iterator[int]:
        """Return the earlier requests of its transactional id that a request still waits for.

        `conflicts` decides by API key.
        """
        if item.transaction is not None:
            yield from self.earlier_than(item.request.index, item.transaction, conflicts)

    def earlier_than(self, own: int, transaction: str, conflicts: Callable[[int], bool]) -> Iterator[int]:
        """Return the same by the index of the request and its transactional id."""
        order = self._order.get(transaction, ())
        begin = self._ended.get(transaction, 0)
        has_ended = self._gates.has_ended
        while begin < len(order) and order[begin] < own and has_ended(order[begin]):
            begin += 1
        self._ended[transaction] = begin
        for at in range(begin, len(order)):
            index = order[at]
            if index >= own:
                return
            if conflicts(self._items[index].request.key) and not has_ended(index):
                yield index
