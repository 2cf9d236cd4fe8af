"""Transactions on the target: which are open, their partitions, and what their requests wait for.

All transactional ids here are the captured ones. The requests of a transactional id are sent in the captured
order as far as they conflict: a batch waits for the partitions to be added, the end waits for all that
belongs to the transaction.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.replay_items import ReplayItem
from kdissect.replay.pass_state import RequestGates
from kdissect.replay.target.producers import ProducerIdentity


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
        if item.transaction is None:
            return
        order = self._order.get(item.transaction, ())
        begin = self._ended.get(item.transaction, 0)
        has_ended = self._gates.has_ended
        while begin < len(order) and order[begin] < item.request.index and has_ended(order[begin]):
            begin += 1
        self._ended[item.transaction] = begin
        for at in range(begin, len(order)):
            index = order[at]
            if index >= item.request.index:
                return
            if conflicts(self._items[index].request.key) and not has_ended(index):
                yield index
