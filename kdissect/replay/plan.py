"""The plan: what a run would send, rewrite, convert and skip, and why.

In: a capture, and what the target says about itself. Out: plain values, which are written as JSON and
rendered by `results.run_text`. Every request is rewritten as a run would rewrite it, and not sent. The
plan lacks what only a run can know (errors of the target, a first attempt that failed).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from kdissect.exchanges.filter import groups_of
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.create_topics import assume_created, missing_topics
from kdissect.replay.disposition import (
    Disposition,
    SkipRequest,
    check,
    sums,
)
from kdissect.replay.engine.run import Replay
from kdissect.replay.engine.schedule import LongGaps, Schedule
from kdissect.replay.engine.sharding import Component, components_of, shard_requests, shard_size
from kdissect.replay.handlers.produce_batches import BEFORE_IMPLICIT_ADD
from kdissect.replay.handlers.rejoin import session_ms
from kdissect.replay.handlers.replay_context import ReplayContext
from kdissect.replay.handlers.request_rewriter import NEWEST
from kdissect.replay.handlers.share import FIRST_VERSION
from kdissect.replay.load.captured_cluster import CapturedTopic
from kdissect.replay.load.known_requests import AlikeGroups, AlikeRequests
from kdissect.replay.load.policy import FIRST_OF_CONSUMERS, is_internal
from kdissect.replay.load.replay_items import ReplayItem, ReplayItems, column_blocks, distinct_of
from kdissect.replay.load.request_table import Chosen
from kdissect.replay.net.transport import wall_ns
from kdissect.replay.plan_totals import PeakRates, PlanTotals
from kdissect.replay.refused_sessions import refused_sessions
from kdissect.replay.rewrite.names import ZERO_ID, Tree
from kdissect.replay.settings import Groups, Pace, ReplaySettings, Timestamps
from kdissect.replay.target.cluster import PARTITIONS_OF
from kdissect.replay.target.leaders import LEAST_METADATA
from kdissect.report.wording import counted
from kdissect.text import format_address, format_uuid, parse_address

VERSION_LIMITS: Mapping[int, tuple[int, int]] = {
    ApiKey.METADATA: (LEAST_METADATA, NEWEST),
    ApiKey.FETCH: (4, NEWEST),
    ApiKey.LIST_OFFSETS: (1, NEWEST),
    ApiKey.OFFSET_COMMIT: (2, NEWEST),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (FIRST_OF_CONSUMERS, NEWEST),
    ApiKey.JOIN_GROUP: (2, NEWEST),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
    ApiKey.SHARE_FETCH: (FIRST_VERSION, NEWEST),
    ApiKey.SHARE_ACKNOWLEDGE: (FIRST_VERSION, NEWEST),
}
"""API -> lowest and highest version that its handler sends, beyond what the target speaks."""

BEFORE_GENERATION_2: Mapping[int, int] = {
    ApiKey.PRODUCE: BEFORE_IMPLICIT_ADD,
    ApiKey.END_TXN: 4,
    ApiKey.TXN_OFFSET_COMMIT: 4,
}
"""API -> highest version that may be sent in a transaction of the first generation (KIP-890)."""

REQUEST_LIMIT = 104_857_600  # socket.request.max.bytes of a broker that nobody configured
CHOSEN_GROUPS: Mapping[Groups, str] = {
    Groups.OFF: "the capture has no consumer groups",
    Groups.SIMPLE: "consumer groups: commits without members, since the capture shows no members (--groups)",
    Groups.FULL: "consumer groups: members join as in the capture (--groups simple replays commits only)",
}
"""Sentence about groups that were chosen by the needs of the capture."""

MOST_TIES = 3  # of the largest component that are listed


def make_plan(replay: Replay, prepared: bool = False) -> dict[str, Any]:
    """Return the plan of a replay whose target is known.

    With `prepared` the topics that `prepare` would create count as if they were there.
    """
    context, loaded = replay.context(), replay.loaded
    totals, retries = PlanTotals(len(loaded.items)), loaded.retries.keys() | loaded.repeats.keys()
    present = context.cluster.topics.keys() | set(map(loaded.names.topic, loaded.created))
    present |= assume_created(context, missing_topics(replay) if prepared else ())
    groups = loaded.known.alike(loaded.items.refusals_of)
    for alike in groups:
        _plan_alike(context, loaded.items, alike, groups, totals, present)
    sent = Chosen(loaded.items, totals.sent(groups, loaded.items, retries))
    check(len(loaded.items), totals.dispositions)
    would_be_sent = {"would be sent": totals.dispositions[Disposition.ANSWERED]}
    target = _target(replay, totals)
    return {
        "capture": _capture(replay),
        "target": target,
        "accounting": sums(totals.dispositions) | {"sent_as": would_be_sent},
        "apis": {name: dict(counts) for name, counts in sorted(totals.apis.items())},
        "skipped": [
            {"api": name, "bucket": disposition, "reason": reason, "requests": count}
            for (name, disposition, reason), count in totals.skipped.most_common()
        ],
        "conversions": [
            {"api": name, "captured": captured, "sent": version, "requests": count}
            for (name, captured, version), count in sorted(totals.versions.items())
        ],
        "losses": dict(totals.losses),
        "names": _names(replay, totals.groups),
        "topics": _topics(replay),
        "timers": _timers(replay, sent),
        "load": _load(replay, sent),
        "records": loaded.records,
        "record_bytes": loaded.record_bytes,
        "retries": len(retries),
        "settings": _settings(replay.settings),
        "warnings": [*target["refused_sessions"], *_warnings(replay), *totals.nameless()],
    }


def _plan_alike(
    context: ReplayContext,
    items: ReplayItems,
    alike: AlikeRequests,
    groups: AlikeGroups,
    totals: PlanTotals,
    present: Collection[str],
) -> None:
    """Add requests of one shape to the totals: what becomes of the first becomes of all.

    Commits differ in their offsets and the texts beside them, so each is converted on its own.
    """
    item = items[alike.first]
    totals.count = alike.size
    try:
        version = _version_of(context, item, totals, present)
    except SkipRequest as skip:
        totals.add_skipped(item, skip)
        return
    if alike.size > 1 and item.request.key == ApiKey.OFFSET_COMMIT and version != item.request.version:
        context.notes.forget(item.request.index)
        for index in groups.members(alike.first).tolist():
            _plan_alike(context, items, AlikeRequests(index, 1), groups, totals, present)
        return
    totals.add_sent(item, version)
    totals.add_notes(context.notes.by_request.pop(item.request.index, ()))


def _version_of(
    context: ReplayContext, item: ReplayItem, totals: PlanTotals, present: Collection[str]
) -> int:
    """Return the version in which a request would be sent. Raise SkipRequest if it would not be.

    The groups that it names, and its topic ids without a name, are added to the totals.
    """
    if item.refusal is not None:
        raise SkipRequest(*item.refusal)
    key = item.request.key
    lowest, highest = VERSION_LIMITS.get(key, (0, NEWEST))
    if key in BEFORE_GENERATION_2 and item.transaction and not context.cluster.second_generation:
        highest = BEFORE_GENERATION_2[key]
    body = context.captured.request(item.request)
    totals.groups.update(groups_of(key, item.request.version or 0, body))
    if key in PARTITIONS_OF:
        ids = {topic.get("topic_id", ZERO_ID) for topic in body.get(PARTITIONS_OF[key].topics) or ()}
        totals.add_nameless(ids - context.names.captured_ids.keys() - {ZERO_ID})
    version = context.rewriter.version(item, lowest, highest)
    if key == ApiKey.JOIN_GROUP:
        totals.sessions_ms.add(body["session_timeout_ms"])
    if key in PARTITIONS_OF:
        _check_topics(context, key, body, present)
    if key not in (ApiKey.PRODUCE, ApiKey.FETCH):
        context.rewriter.rewrite(item, body, version)
    return version


def _check_topics(context: ReplayContext, key: int, body: Tree, present: Collection[str]) -> None:
    """Raise SkipRequest if no topic of a request is among those that are present on the target."""
    place = PARTITIONS_OF[key]
    names = [context.names.captured_topic(topic, place.name) for topic in body.get(place.topics) or ()]
    if not names:
        return
    if key == ApiKey.PRODUCE and all(is_internal(name) for name in names):
        raise SkipRequest(Disposition.POLICY, "an internal topic")
    if all(name is None for name in names):
        raise SkipRequest(Disposition.HEADLESS, "a topic id has no name in the capture")
    if not any(name and context.names.topic(name) in present for name in names):
        first = next(name for name in names if name)
        raise SkipRequest(Disposition.DEPENDENCY, f"topic {context.names.topic(first)} is not on the target")


def _capture(replay: Replay) -> dict[str, Any]:
    capture, loaded = replay.capture, replay.loaded
    connections = distinct_of(loaded.items, "connection")
    return {
        "files": list(capture.files),
        "requests": len(loaded.items),
        "orphan_responses": capture.orphans,
        "connections": len(connections),
        "headless_connections": len(capture.headless & connections),
        "client_hosts": len({parse_address(client)[0] for client in capture.clients.values()}),
        "start_ns": capture.earliest_ns,
        "end_ns": capture.latest_ns,
        "cluster_ids": sorted(loaded.source.cluster_ids),
        "brokers": sorted(format_address(*address) for address in loaded.source.addresses),
        "sasl_mechanisms": sorted(loaded.source.mechanisms),
    }


def _target(replay: Replay, totals: PlanTotals) -> dict[str, Any]:
    cluster, settings = replay.cluster, replay.settings
    sessions_ms = (session_ms(settings, each) for each in totals.sessions_ms)
    return {
        "cluster_id": replay.target.cluster_id,
        "nodes": {str(node): format_address(*address) for node, address in sorted(cluster.nodes.items())},
        "transaction_version": cluster.features.get("transaction.version", 0),
        "refused_sessions": refused_sessions(sessions_ms, replay.target.session_bounds),
    }


def _names(replay: Replay, groups: set[str]) -> dict[str, Any]:
    loaded = replay.loaded
    transactional = loaded.items.transactional_ids()
    return {
        "prefix": replay.settings.prefix,
        "topics": {name: loaded.names.topic(name) for name in sorted(loaded.source.topics)},
        "topic_ids": {format_uuid(each): name for each, name in replay.settings.topic_ids.items()},
        "groups": {group: loaded.names.group(group) for group in sorted(groups) if group},
        "transactional_ids": {name: loaded.names.transactional(name) for name in sorted(transactional)},
    }


def _topics(replay: Replay) -> list[dict[str, Any]]:
    """Return how each topic of the target differs from the captured one."""
    return [
        {
            "topic": name,
            "target": replay.loaded.names.topic(name),
            "partitions": source.partitions,
            "differences": ["created by the run"]
            if name in replay.loaded.created
            else list(_differences(replay, replay.loaded.names.topic(name), source)),
        }
        for name, source in sorted(replay.loaded.source.topics.items())
        if not is_internal(name)
    ]


def _differences(replay: Replay, name: str, source: CapturedTopic) -> Iterator[str]:
    """Yield how a topic of the target differs from the captured one; `name` is that on the target."""
    known, settings = replay.cluster.topics.get(name), replay.target.settings.get(name, {})
    if known is None:
        yield "missing, or hidden from this login" if name in replay.cluster.hidden else "missing"
        return
    if len(known.leaders) < source.partitions:
        yield f"{counted(len(known.leaders), 'partition')}, {source.partitions} in the capture"
    if source.replicas and known.replicas < source.replicas:
        yield f"{counted(known.replicas, 'replica')}, {source.replicas} in the capture: acks=all is cheaper"
    if settings.get("message.timestamp.type") == "LogAppendTime":
        yield "the broker stamps records with its own time"
    if "compact" in (settings.get("cleanup.policy") or ""):
        yield "compacted: records without a key are refused"
    if name in replay.target.unsettled:
        yield "partitions without a leader, or nodes that do not know them"
    retention_ms, keeps = settings.get("retention.ms"), replay.settings.timestamps is Timestamps.KEEP
    if retention_ms and int(retention_ms) >= 0 and keeps:
        age_ms = (wall_ns() - replay.capture.earliest_ns) // 1_000_000
        if age_ms > int(retention_ms):
            yield "records are older than its retention and would be deleted (--timestamps shift)"


def _timers(replay: Replay, sent: Sequence[ReplayItem]) -> list[str]:
    """Return which of Kafka's timers, which run in real time, the speed breaks."""
    speed = replay.settings.speed
    if speed == 1 or replay.settings.pace is Pace.ASAP:
        return []
    keys = distinct_of(sent, "key")
    notes = []
    if ApiKey.FETCH in keys:
        notes.append(f"fetches wait 1/{speed:g} of the time that they waited in the capture")
    if speed > 1 and ApiKey.JOIN_GROUP in keys:
        notes.append(
            "session and rebalance timeouts are not shortened: members that vanished are missed later than "
            "captured"
        )
    if speed > 1:
        return notes
    if keys & {ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT}:
        notes.append(
            "heartbeats come slower than captured: session timeouts are raised, members of groups without a "
            "leader may expire"
        )
    if ApiKey.INIT_PRODUCER_ID in keys and any(item.transaction for item in sent):
        notes.append("transactions stay open longer: their timeout is raised as far as the broker allows")
    notes.append("connections may be idle for longer than the broker keeps them (10 minutes by default)")
    return notes


def _load(replay: Replay, sent: Sequence[ReplayItem]) -> dict[str, Any]:
    settings = replay.settings
    if not sent:
        return {
            "duration_s": 0.0,
            "peak_requests_per_s": 0.0,
            "peak_bytes_per_s": 0.0,
            "bytes": 0,
            "connections": 0,
            "processes": [],
            "components": {"count": 0, "largest": None},
        }
    gaps, peaks = LongGaps(settings.max_gap_ns), PeakRates()
    table = Schedule(settings.pace, settings.speed, sent[0].request.first_ns, 0, int(settings.ramp_s * 1e9))
    for first_ns, sizes in column_blocks(sent, "first_ns", "frame_size"):
        peaks.add(table.dues_ns(gaps.without(first_ns)), sizes)
    components = components_of(replay.loaded)
    shards = shard_requests(replay.loaded, settings, components)
    return {
        "duration_s": peaks.last_ns / 1e9,
        "removed_gaps_s": gaps.removed_ns / 1e9,
        "peak_requests_per_s": peaks.requests,
        "peak_bytes_per_s": peaks.bytes,
        "bytes": peaks.all_bytes,
        "connections": len(distinct_of(sent, "connection")),
        "processes": [shard_size(share).requests for share in shards],
        "components": _components(components),
    }


def _components(components: Sequence[Component]) -> dict[str, Any]:
    """Return how much of the load must stay on one process, and what ties it together."""
    largest = components[0]
    return {
        "count": len(components),
        "largest": {
            "share": largest.weight / sum(component.weight for component in components),
            "requests": largest.requests,
            "bytes": largest.size,
            "connections": len(largest.connections),
            "ties": [
                {"kind": each.tie.kind, "name": each.tie.name, "connections": each.connections}
                for each in largest.ties[:MOST_TIES]
            ],
        },
    }


def _settings(settings: ReplaySettings) -> dict[str, Any]:
    return {
        "pace": settings.pace.value,
        "speed": settings.speed,
        "ramp_s": settings.ramp_s,
        "max_gap_s": None if settings.max_gap_ns is None else settings.max_gap_ns / 1e9,
        "groups": settings.groups.value,
        "offsets": settings.offsets.value,
        "timestamps": settings.timestamps.value,
        "loops": settings.loops,
        "sasl": settings.credentials.mechanism if settings.credentials else None,
        "tls": None
        if settings.tls is None
        else ("certificates are not checked" if settings.tls.insecure else "checked"),
    }


def _warnings(replay: Replay) -> Iterator[str]:
    """Yield what the operator should know before a run."""
    loaded = replay.loaded
    yield from replay.capture.warnings
    sizes = (int(size.max(initial=0)) for (size,) in column_blocks(loaded.items, "frame_size"))
    largest = max(sizes, default=0)
    if largest > REQUEST_LIMIT:
        yield f"the largest request has {largest} bytes; brokers take {REQUEST_LIMIT} by default"
    if replay.capture.headless:
        yield (
            "connections older than the capture get producer ids, fetch sessions and memberships of their own"
        )
    lacking = missing_topics(replay)
    missing, hidden = len(lacking), sum(topic.name in replay.cluster.hidden for topic in lacking)
    if hidden:
        what, they = ("topic", "it") if hidden == 1 else ("topics", "they")
        yield f"access rights of the target hide {hidden} {what} from this login: {they} may be there"
    if missing:
        yield (
            f"{missing} {'topic is' if missing == 1 else 'topics are'} missing on the target: "
            "kdissect replay prepare creates them, with as many partitions as in the capture"
        )
    if loaded.prior_members:
        yield f"{len(loaded.prior_members)} group members are older than what is sent: they join first"
    if loaded.older_sessions:
        known = sum(map(len, loaded.older_sessions.values()))
        yield (
            f"{len(loaded.older_sessions)} fetch sessions are older than what is sent: "
            f"{known} of their partitions are known, others may be missing"
        )
    if loaded.source.mechanisms:
        yield "captured credentials are never used: every connection uses the login of the operator, or none"
    if replay.settings.credentials and replay.settings.tls and replay.settings.tls.insecure:
        yield "the target's certificate is not checked: whoever answers in its place gets the login"
    if replay.settings.groups_chosen:
        yield CHOSEN_GROUPS[replay.settings.groups]
    elif replay.settings.groups is Groups.OFF:
        yield "consumer groups are not replayed (--groups simple or full)"
