"""Three brokers and their clients told as a story: producers that write steadily, and what goes wrong.

Each producer writes to each broker. `took_ms` is a function of the broker's number and the time in ms.
"""

from collections.abc import Callable, Mapping

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Line, Story
from tests.helpers.told_groups import produce

NODES = (1, 2, 3)
HOSTS = tuple(f"10.0.0.{node}" for node in NODES)
PRODUCERS = ("writer-a", "writer-b", "writer-c")
METADATA = {
    "brokers": [
        {"node_id": node, "host": host, "port": 9092} for node, host in zip(NODES, HOSTS, strict=True)
    ],
    "controller_id": 1,
    "topics": [],
}

Took = Callable[[int, float], float | None]
"""How long a request to a broker (number) at a time takes in ms; None if nobody asks it any more."""


Pace = Callable[[int, int, float], tuple[float, float]]
"""How long a leader holds the Fetch of a follower (numbers) at a time in ms, and the time to the next one."""


def name_of(node: int) -> str:
    """Return the name of a broker in reports."""
    return f"broker {node} (10.0.0.{node}:9092)"


def cluster(
    took_ms: Took, seconds: float = 30, begin_ms: float = 0, every_ms: int = 150, at_host: str = ""
) -> tuple[Story, dict[tuple[str, int], Line]]:
    """Return a story with producers, and their connections by client and broker.

    Each producer has a host of its own, unless all are `at_host`.
    """
    story, lines = Story(), {}
    for number, client in enumerate(PRODUCERS):
        for node, host in zip(NODES, HOSTS, strict=True):
            own = at_host or f"10.1.0.{number + 1}"
            line = story.connect(own, (host, 9092), client_id=client, at_ms=begin_ms)
            lines[client, node] = line
            line.call(begin_ms + 1, 2, ApiKey.METADATA, 1, {"topics": None}, METADATA)
            at_ms = begin_ms + 5 + 7 * number + 3 * node
            while at_ms < 1000 * seconds:
                took = took_ms(node, at_ms)
                if took is None:
                    break
                produce(line, at_ms, took_ms=took, partition=node, offset=int(at_ms))
                at_ms += max(every_ms, took + 1)
    return story, lines


def end_together(lines: Mapping[tuple[str, int], Line], node: int, at_ms: float) -> None:
    """Have a broker end the connections of all producers at a moment, each with a request under way."""
    for number, client in enumerate(PRODUCERS):
        lines[client, node].ask(at_ms - 1, 3, 1, {"topics": []})
        lines[client, node].close(at_ms + number / 10, by_client=False, reset=True)


def refuse(story: Story, node: int, begin_ms: float, end_ms: float, every_ms: float = 500) -> None:
    """Have the producers try to connect to a broker that is gone."""
    at_ms = begin_ms
    while at_ms < end_ms:
        for number, client in enumerate(PRODUCERS):
            host = HOSTS[NODES.index(node)]
            story.connect(
                f"10.1.0.{number + 1}", (host, 9092), client_id=client, at_ms=at_ms + number, accepted=False
            )
        at_ms += every_ms


def replicate(story: Story, pace: Pace, seconds: float = 30) -> None:
    """Have each broker fetch from the others."""
    for follower in NODES:
        for leader in NODES:
            if follower == leader:
                continue
            ends = HOSTS[NODES.index(follower)], (HOSTS[NODES.index(leader)], 9092)
            line = story.connect(*ends, client_id=f"broker-{follower}-fetcher-0")
            at_ms = 10.0 + follower + 3 * leader
            while at_ms < 1000 * seconds:
                held, reaction = pace(follower, leader, at_ms)
                request = {"replica_id": follower, "max_wait_ms": 500, "min_bytes": 1, "topics": []}
                line.call(at_ms, held, ApiKey.FETCH, 7, request, {"responses": []})
                at_ms += held + reaction


def ask_controller(line: Line, at_ms: float, node: int, version: int = 3) -> None:
    """Have a broker with ZooKeeper ask the controller to let it end."""
    answer = {"error_code": 0, "remaining_partitions": []}
    line.call(at_ms, 20, ApiKey.CONTROLLED_SHUTDOWN, version, {"broker_id": node}, answer)


def heartbeat(line: Line, at_ms: float, node: int, wants_end: bool, version: int = 1, error: int = 0) -> None:
    """Have a broker with KRaft send a heartbeat to the controller, in which it may ask to end."""
    body = {
        "broker_id": node,
        "broker_epoch": 7,
        "current_metadata_offset": 100,
        "want_fence": False,
        "want_shut_down": wants_end,
    }
    answer = {"error_code": error, "is_caught_up": True, "is_fenced": False, "should_shut_down": wants_end}
    line.call(at_ms, 4, ApiKey.BROKER_HEARTBEAT, version, body, answer)


def ask_for_vote(line: Line, at_ms: float, voter: int, version: int = 1, error: int = 0) -> None:
    """Have a controller ask another one, which it calls by its node id from version 1 on, for its vote."""
    asking = {
        "partition_index": 0,
        "replica_epoch": 5,
        "replica_id": 9,
        "last_offset_epoch": 4,
        "last_offset": 9,
    }
    told = {"partition_index": 0, "error_code": 0, "leader_id": -1, "leader_epoch": 5, "vote_granted": True}
    name = "__cluster_metadata"
    body = {"cluster_id": "c", "topics": [{"topic_name": name, "partitions": [asking]}]}
    body |= {"voter_id": voter} if version else {}
    answer = {"error_code": error, "topics": [{"topic_name": name, "partitions": [told]}]}
    line.call(at_ms, 4, ApiKey.VOTE, version, body, answer)
