"""What has to have ended before a read or a commit is sent: produces, and ends of transactions.

In: what the capture tells (`CapturedReads`), and which requests have ended (`RequestGates`). Out: the first
request that is still missing, for handlers to wait for. Produces of a partition are looked at in the order of
their captured offsets, and each of them once.
"""

from kdissect.replay.identifiers import TopicPartition
from kdissect.replay.load.captured_reads import CapturedReads
from kdissect.replay.pass_state import RequestGates


class ReadOrder:
    """The order between writes and reads of one pass."""

    def __init__(self, captured: CapturedReads, gates: RequestGates) -> None:
        self.captured, self._gates = captured, gates
        self._ended: dict[TopicPartition, int] = {}  # how many produces have ended, from the first on

    def missing_write(self, partition: TopicPartition, offset: int) -> int | None:
        """Return a produce that wrote before a captured offset and has not ended; None if all have."""
        requests, wanted = self.captured.writers_before(partition, offset)
        ended = self._ended.get(partition, 0)
        if ended >= wanted:
            return None
        while ended < wanted and self._gates.has_ended(requests[ended]):
            ended += 1
        self._ended[partition] = ended
        return requests[ended] if ended < wanted else None

    def missing_before(self, index: int) -> int | None:
        """Return a request that a fetch or a commit comes after and that has not ended; None if all have."""
        before = self.captured.before.get(index, ())
        return next((each for each in before if not self._gates.has_ended(each)), None)

    def missing_of_answer(self, index: int) -> int | None:
        """Return a request that the captured answer of a fetch needs; None if all have ended."""
        for partition, read in self.captured.reads(index).items():
            missing = self.missing_write(partition, read.following)
            if missing is not None:
                return missing
        return self.missing_before(index)
