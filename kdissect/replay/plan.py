"""The plan: what a run would send, rewrite, convert and skip, and why.

Made from the capture and what the target said.

Every request is rewritten as a run would rewrite it, and not sent. What only a run can know (errors of the
target, a first attempt that failed) is said to depend on it.
"""

from collections import Counter, defaultdict
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import decode_request
from kdissect.protocol.schema.registry import api_name
from kdissect.replay.create_topics import missing_topics
from kdissect.replay.disposition import (
    Disposition,
    SkipRequest,
    check,
    sums,
)
from kdissect.replay.engine.run import Replay
from kdissect.replay.engine.schedule import Schedule, without_long_gaps
from kdissect.replay.engine.sharding import shard_requests
from kdissect.replay.handlers.produce_batches import BEFORE_IMPLICIT_ADD
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.share import FIRST_VERSION
from kdissect.replay.load.policy import FIRST_OF_CONSUMERS, is_internal
from kdissect.replay.load.replay_input import ReplayItem
from kdissect.replay.net.transport import wall_ns
from kdissect.replay.rewrite.names import ZERO_ID, Tree
from kdissect.replay.rewrite.references import groups_of
from kdissect.replay.settings import (
    Groups,
    Pace,
    ReplaySettings,
    Timestamps,
)
from kdissect.replay.target.cluster import PARTITIONS_OF
from kdissect.replay.target.leaders import LEAST_METADATA
from kdissect.text import format_uuid

LIMITS: dict[
    int, tuple[int, int]
] = {  # API -> (lowest, highest) version that a course sends, beyond what the target says
    ApiKey.METADATA: (LEAST_METADATA, 99),
    ApiKey.FETCH: (4, 99),
    ApiKey.LIST_OFFSETS: (1, 99),
    ApiKey.OFFSET_COMMIT: (2, 99),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (FIRST_OF_CONSUMERS, 99),
    ApiKey.JOIN_GROUP: (2, 99),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.SHARE_FETCH: (FIRST_VERSION, 99),
    ApiKey.SHARE_ACKNOWLEDGE: (FIRST_VERSION, 99),
}
FIRST_GENERATION: dict[int, int] = {
    ApiKey.PRODUCE: BEFORE_IMPLICIT_ADD,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
REQUEST_LIMIT = 104_857_600  # socket.request.max.bytes of a broker that nobody configured
RATE_WINDOW_NS = 1_000_000_000
MOST_IDS = 5  # of nameless topics that are told


def make_plan(replay: Replay) -> dict[str, Any]:
    """Give the plan as plain values."""
    context = replay.context()
    settings, loaded = replay.settings, replay.loaded
    buckets: Counter[Disposition] = Counter()
    by_api: dict[str, Counter[str]] = defaultdict(Counter)
    skipped: Counter[tuple[str, str, str]] = Counter()
    versions: Counter[tuple[str, int, int]] = Counter()
    losses: Counter[str] = Counter()
    sent: list[ReplayItem] = []
    groups: set[str] = set()
    nameless: Counter[bytes] = Counter()
    for item in loaded.items:
        name = api_name(item.request.key)
        outcome = _outcome(replay, context, item, groups, nameless)
        by_api[name]["captured"] += 1
        if isinstance(outcome, SkipRequest):
            buckets[outcome.bucket] += 1
            by_api[name]["skipped"] += 1
            skipped[name, outcome.bucket.value, outcome.reason] += 1
            continue
        buckets[Disposition.ANSWERED] += 1
        by_api[name]["sent"] += 1
        by_api[name]["retries"] += (
            item.request.index in loaded.retries or item.request.index in loaded.repeats
        )
        captured = item.request.version or 0
        if outcome != captured:
            by_api[name]["converted"] += 1
            versions[name, captured, outcome] += 1
        sent.append(item)
    for notes in context.notes.by_request.values():
        losses.update(note for note in notes if ", without " in note)
    check(len(loaded.items), buckets)
    return {
        "capture": _capture(replay),
        "target": _target(replay),
        "accounting": sums(buckets) | {"sent_as": {"would be sent": buckets[Disposition.ANSWERED]}},
        "apis": {name: dict(counts) for name, counts in sorted(by_api.items())},
        "skipped": [
            {"api": name, "bucket": bucket, "reason": reason, "requests": count}
            for (name, bucket, reason), count in skipped.most_common()
        ],
        "conversions": [
            {"api": name, "captured": captured, "sent": version, "requests": count}
            for (name, captured, version), count in sorted(versions.items())
        ],
        "losses": dict(losses),
        "names": _names(replay, groups),
        "topics": _topics(replay),
        "timers": _timers(replay, sent),
        "load": _load(replay, sent),
        "records": loaded.records,
        "record_bytes": loaded.record_bytes,
        "retries": len(loaded.retries.keys() | loaded.repeats.keys()),
        "settings": _settings(settings),
        "warnings": [*_warnings(replay), *_unnamed(nameless)],
    }


def _outcome(
    replay: Replay, context: ReplayContext, item: ReplayItem, groups: set[str], nameless: Counter[bytes]
) -> SkipRequest | int:
    """Give the version in which a request would be sent, or why it would not be.

    Take note of the groups that it names, and of topic ids without a name.
    """
    if item.refusal is not None:
        return SkipRequest(*item.refusal)
    key = item.request.key
    low, high = LIMITS.get(key, (0, 99))
    if key in FIRST_GENERATION and item.transaction and not context.cluster.second_generation:
        high = FIRST_GENERATION[key]
    body = decode_request(replay.spool.get(item.request.frame) or b"").body or {}
    groups.update(groups_of(key, item.request.version or 0, body))
    if key in PARTITIONS_OF:
        ids = {topic.get("topic_id", ZERO_ID) for topic in body.get(PARTITIONS_OF[key].topics) or ()}
        nameless.update(ids - context.names.captured_ids.keys() - {ZERO_ID})
    try:
        version = context.rewriter.version(item, low, high)
        if key in PARTITIONS_OF:
            _check_topics(context, key, body)
        if key not in (ApiKey.PRODUCE, ApiKey.FETCH):
            context.rewriter.rewrite(item, body, version)
    except SkipRequest as refused:
        return refused
    return version


def _check_topics(context: ReplayContext, key: int, body: Tree) -> None:
    """Raise SkipRequest when no topic of a request is on the target."""
    cut = PARTITIONS_OF[key]
    names = [context.names.captured_topic(topic, cut.name) for topic in body.get(cut.topics) or ()]
    if not names:
        return
    if key == ApiKey.PRODUCE and all(is_internal(name) for name in names):
        raise SkipRequest(Disposition.POLICY, "an internal topic")
    if all(name is None for name in names):
        raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
    if not any(name and context.names.topic(name) in context.cluster.topics for name in names):
        first = next(name for name in names if name)
        raise SkipRequest(Disposition.DEPENDENCY, f"topic {context.names.topic(first)} is not on the target")


def _capture(replay: Replay) -> dict[str, Any]:
    capture, loaded = replay.capture, replay.loaded
    connections = {item.request.connection for item in loaded.items}
    return {
        "files": list(capture.files),
        "requests": len(loaded.items),
        "orphan_responses": capture.orphans,
        "connections": len(connections),
        "headless_connections": len(capture.headless & connections),
        "client_hosts": len({client.rpartition(":")[0] for client in capture.clients.values()}),
        "start_ns": capture.earliest_ns,
        "end_ns": capture.latest_ns,
        "cluster_ids": sorted(loaded.source.cluster_ids),
        "brokers": sorted(f"{host}:{port}" for host, port in loaded.source.addresses),
        "sasl_mechanisms": sorted(loaded.source.mechanisms),
    }


def _target(replay: Replay) -> dict[str, Any]:
    topology = replay.cluster
    return {
        "cluster_id": replay.target.cluster_id,
        "nodes": {str(node): f"{host}:{port}" for node, (host, port) in sorted(topology.nodes.items())},
        "transaction_version": topology.features.get("transaction.version", 0),
    }


def _names(replay: Replay, groups: set[str]) -> dict[str, Any]:
    loaded = replay.loaded
    transactional = {item.transaction for item in loaded.items if item.transaction}
    return {
        "prefix": replay.settings.prefix,
        "topics": {name: loaded.names.topic(name) for name in sorted(loaded.source.topics)},
        "topic_ids": {format_uuid(each): name for each, name in replay.settings.topic_ids.items()},
        "groups": {group: loaded.names.group(group) for group in sorted(groups) if group},
        "transactional_ids": {name: loaded.names.transactional(name) for name in sorted(transactional)},
    }


def _topics(replay: Replay) -> list[dict[str, Any]]:
    """Compare each topic of the capture with the target's."""
    found = []
    for name, source in sorted(replay.loaded.source.topics.items()):
        if is_internal(name):
            continue
        mapped = replay.loaded.names.topic(name)
        known = replay.cluster.topics.get(mapped)
        told = replay.target.settings.get(mapped, {})
        differences = []
        if known is None:
            differences.append("missing")
        else:
            if len(known.leaders) < source.partitions:
                differences.append(f"{len(known.leaders)} partitions, {source.partitions} in the capture")
            if source.replicas and known.replicas < source.replicas:
                differences.append(
                    f"{known.replicas} replicas, {source.replicas} in the capture: acks=all is cheaper"
                )
            if told.get("message.timestamp.type") == "LogAppendTime":
                differences.append("the broker stamps records with its own time")
            if "compact" in (told.get("cleanup.policy") or ""):
                differences.append("compacted: records without key are refused")
            if mapped in replay.target.unsettled:
                differences.append("partitions without a leader, or nodes that do not know them")
            differences += _retention(replay, told)
        found.append(
            {"topic": name, "target": mapped, "partitions": source.partitions, "differences": differences}
        )
    return found


def _retention(replay: Replay, told: dict[str, str | None]) -> list[str]:
    retention = told.get("retention.ms")
    if not retention or int(retention) < 0 or replay.settings.timestamps is not Timestamps.KEEP:
        return []
    age_ms = (wall_ns() - replay.capture.earliest_ns) // 1_000_000
    return (
        ["records are older than its retention: they vanish (--timestamps shift)"]
        if age_ms > int(retention)
        else []
    )


def _timers(replay: Replay, sent: list[ReplayItem]) -> list[str]:
    """Say which of Kafka's timers, which run in real time, the speed breaks."""
    speed = replay.settings.speed
    if speed == 1 or replay.settings.pace is Pace.ASAP:
        return []
    keys = {item.request.key for item in sent}
    said = []
    if ApiKey.FETCH in keys:
        said.append(f"fetches wait 1/{speed:g} of the time that they waited in the capture")
    if speed < 1:
        if keys & {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT}:
            said.append(
                "heartbeats come slower than captured: session timeouts are raised, members of "
                "groups without a leader may expire"
            )
        if any(item.transaction for item in sent) and ApiKey.INIT_PRODUCER_ID in keys:
            said.append("transactions stay open longer: their timeout is raised as far as the broker allows")
        said.append(
            "connections may be idle for longer than the broker keeps them (10 minutes if "
            "nobody configured it)"
        )
    elif keys & {ApiKey.JOIN_GROUP}:
        said.append(
            "session and rebalance timeouts are not shortened: members that vanished are "
            "missed later than captured"
        )
    return said


def _load(replay: Replay, sent: list[ReplayItem]) -> dict[str, Any]:
    settings = replay.settings
    if not sent:
        return {
            "duration_s": 0.0,
            "peak_requests_per_s": 0.0,
            "peak_bytes_per_s": 0.0,
            "bytes": 0,
            "connections": 0,
            "processes": [],
        }
    times, removed = without_long_gaps([item.request.first_ns for item in sent], settings.max_gap_ns)
    table = Schedule(settings.pace, settings.speed, times[0], 0, int(settings.ramp_s * 1e9))
    requests: Counter[int] = Counter()
    size: Counter[int] = Counter()
    for item, time_ns in zip(sent, times, strict=True):
        window = table.due_ns(time_ns) // RATE_WINDOW_NS
        requests[window] += 1
        size[window] += item.request.frame.size
    return {
        "duration_s": table.due_ns(times[-1]) / 1e9,
        "removed_gaps_s": removed / 1e9,
        "peak_requests_per_s": max(requests.values()),
        "peak_bytes_per_s": max(size.values()),
        "bytes": sum(size.values()),
        "connections": len({item.request.connection for item in sent}),
        "processes": [
            sum(item.refusal is None for item in share) for share in shard_requests(replay.loaded, settings)
        ],
    }


def _settings(settings: ReplaySettings) -> dict[str, Any]:
    return {
        "pace": settings.pace.value,
        "speed": settings.speed,
        "groups": settings.groups.value,
        "offsets": settings.offsets.value,
        "timestamps": settings.timestamps.value,
        "loops": settings.loops,
        "sasl": settings.credentials.mechanism if settings.credentials else None,
        "tls": None
        if settings.tls is None
        else ("certificates are not checked" if settings.tls.insecure else "checked"),
    }


def _unnamed(nameless: Counter[bytes]) -> list[str]:
    """Say which topic ids want a name."""
    told = [f"{format_uuid(each)} ({count:,} requests)" for each, count in nameless.most_common(MOST_IDS)]
    more = [f"{len(nameless) - MOST_IDS} others"] if len(nameless) > MOST_IDS else []
    return [f"the capture names no topic of id {', '.join([*told, *more])}: --topic-id ID=NAME does"] * bool(
        told
    )


def _warnings(replay: Replay) -> list[str]:
    said = list(replay.capture.warnings)
    largest = max((item.request.frame.size for item in replay.loaded.items), default=0)
    if largest > REQUEST_LIMIT:
        said.append(
            f"the largest request has {largest} bytes; brokers take {REQUEST_LIMIT} unless configured"
        )
    if replay.capture.headless:
        said.append(
            "connections older than the capture get producer ids, fetch sessions and memberships of their own"
        )
    loaded = replay.loaded
    missing = len(missing_topics(replay))
    if missing:
        said.append(
            f"{missing} {'topic is' if missing == 1 else 'topics are'} missing on the target: "
            "kdissect replay prepare creates them, with as many partitions as in the capture"
        )
    if loaded.prior_members:
        said.append(
            f"{len(loaded.prior_members)} members of groups are older than what is played: they "
            "are let in first"
        )
    if loaded.older_sessions:
        known = sum(map(len, loaded.older_sessions.values()))
        said.append(
            f"{len(loaded.older_sessions)} fetch sessions are older than what is played: "
            f"{known} of their partitions are known, others may be missing"
        )
    if replay.loaded.source.mechanisms:
        said.append("captured credentials are never used: every connection is the operator's user, or nobody")
    if replay.settings.groups is Groups.OFF:
        said.append("consumer groups are not replayed (--groups simple or full)")
    return said
