"""A member that asks for the offset of its group, reads and commits, told as a story."""

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Line, Story
from tests.helpers.told_groups import fetch, heartbeat, join, leave

FAST = 5
"""A member gets what is there already at once."""


def commit(line: Line, at_ms: float, offset: int, api_key: int = ApiKey.OFFSET_COMMIT) -> None:
    """Commit an offset of partition 0, as a member or in a transaction."""
    topic = {"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": offset}]}
    request = {"group_id": "readers", "topics": [topic]}
    version = 7
    if api_key == ApiKey.OFFSET_COMMIT:
        request |= {"generation_id_or_member_epoch": 1, "member_id": "m"}
    else:
        request |= {"transactional_id": "tx", "producer_id": 5, "producer_epoch": 0}
        version = 2
    found = {"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}
    line.call(at_ms, 1, api_key, version, request, {"topics": [found]})


def ask(line: Line, at_ms: float, offset: int) -> None:
    """Ask where the group is in partition 0."""
    request = {"group_id": "readers", "topics": [{"name": "orders", "partition_indexes": [0]}]}
    found = {"partition_index": 0, "committed_offset": offset, "metadata": "", "error_code": 0}
    response = {"topics": [{"name": "orders", "partitions": [found]}], "error_code": 0}
    line.call(at_ms, 1, ApiKey.OFFSET_FETCH, 5, request, response)


def life(story: Story, begin_ms: float, known: int, first: int, *, commits: bool = True) -> Line:
    """Add seven seconds of a member that asks for its offset, reads and commits."""
    line = story.connect("10.1.0.2", client_id="again", at_ms=begin_ms - 50)
    join(line, begin_ms, "m", 1)
    ask(line, begin_ms + 50, known)
    for number in range(35):
        at_ms, offset = begin_ms + 100 + (200 if number >= FAST else 3) * number, first + 10 * number
        heartbeat(line, at_ms - 10, "m", 1)
        fetch(line, at_ms, offset, offset + 10, records=10)
        if commits and number % 5 == 4:
            commit(line, at_ms + 50, offset + 10)
    leave(line, begin_ms + 7_200, "m")
    line.close(begin_ms + 7_300)
    return line
