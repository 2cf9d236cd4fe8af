"""Consumer groups: who was a member when, and each rebalance with its generation, trigger and duration.

Two protocols have one picture. In the classic one, all members join again for a new generation. They stop
from the first sign of the rebalance (a heartbeat with that error, a leave, a join) until the last of them has
its assignment from SyncGroup. With KIP-848 no member stops: an epoch begins when the first member receives it
and is complete when the last one has.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.schema.registry import api_name
from kdissect.report.build.page.page_names import (
    NOT_SINGLED_OUT,
    PageNames,
    Plain,
    sorted_columns,
)
from kdissect.report.timeline.timeline_tables import GROUP_CLIENTS, GROUP_STEPS

MOST_GROUPS, MOST_MEMBERS, MOST_EVENTS, MOST_REBALANCES = 60, 60, 1500, 400
SILENT_NS = 10 * 10**9  # members send heartbeats every 3 s or 5 s, by default
PROTOCOLS: dict[int, str] = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "consumer (KIP-848)",
    ApiKey.SHARE_GROUP_HEARTBEAT: "share (KIP-932)",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "streams (KIP-1071)",
}
CLASSIC = "classic"

Event = Mapping[str, Any]


def describe_groups(names: PageNames) -> Plain:
    """Return the groups, those with the most steps of the protocol first."""
    steps = sorted_columns(names.partial, GROUP_STEPS).dicts()
    by_group: dict[str, list[Event]] = {}
    for row in steps:
        if row["group_id"] is not None:
            by_group.setdefault(row["group_id"], []).append(row)
    clients, errors, exchanges = _clients(names)
    order = sorted(
        exchanges.keys() | by_group.keys(),
        key=lambda group: (-len(by_group.get(group, ())), -exchanges.get(group, 0), group),
    )
    result = []
    for group in order[:MOST_GROUPS]:
        events = sorted(by_group.get(group, ()), key=lambda row: (row["time_ns"], row["member_id"] or ""))
        result.append(
            {
                "name": group,
                "clients": clients.get(group, []),
                "exchanges": exchanges.get(group, 0),
                "errors": errors.get(group, 0),
            }
            | _history(names, events)
        )
    cut = sum(row["events"] for row in steps if row["group_id"] is None)
    return {"rows": result, "omitted": max(len(order) - MOST_GROUPS, 0), "events_omitted": cut}


def clients_of(names: PageNames) -> dict[str, list[int]]:
    """Return the clients of each group."""
    return _clients(names)[0]


def _clients(names: PageNames) -> tuple[dict[str, list[int]], dict[str, int], dict[str, int]]:
    clients: dict[str, list[int]] = {}
    errors: dict[str, int] = {}
    exchanges: dict[str, int] = {}
    for row in sorted_columns(names.partial, GROUP_CLIENTS).dicts():
        group = row["group_id"]
        if group is None:
            continue
        client = names.client(row["client_id"], row["client_host"])
        known = clients.setdefault(group, [])
        if client != NOT_SINGLED_OUT and client not in known:
            known.append(client)
        errors[group] = errors.get(group, 0) + row["error_responses"]
        exchanges[group] = exchanges.get(group, 0) + row["exchanges"]
    return clients, errors, exchanges


def _history(names: PageNames, events: Sequence[Event]) -> Plain:
    kind = next((PROTOCOLS[row["api_key"]] for row in events if row["api_key"] in PROTOCOLS), CLASSIC)
    rebalances = _generations(names, events) if kind == CLASSIC else _epochs(names, events)
    members = _members(names, events, rebalances)
    protocol = next((row["protocol"] for row in reversed(events) if row["protocol"]), None)
    shown = [
        {
            "at": names.since(row["time_ns"]),
            "asked": names.since(row["asked_ns"]),
            "event": row["event"],
            "api": api_name(row["api_key"]),
            "member": row["member_id"],
            "client": names.client(row["client_id"], row["client_host"]),
            "generation": row["generation"],
            "error": row["error_name"] if row["error_code"] else None,
            "reason": row["reason"],
            "ref": names.packet_ref(row["capture_file"], row["request_packet"], row["response_packet"]),
        }
        for row in events[:MOST_EVENTS]
    ]
    return {
        "kind": kind,
        "protocol": protocol,
        "members": members[:MOST_MEMBERS],
        "members_omitted": max(len(members) - MOST_MEMBERS, 0),
        "rebalances": rebalances[:MOST_REBALANCES],
        "rebalances_omitted": max(len(rebalances) - MOST_REBALANCES, 0),
        "events": shown,
        "events_cut": max(len(events) - MOST_EVENTS, 0),
    }


def _is_join(row: Event) -> bool:
    known = row["generation"] is not None and row["generation"] >= 0
    return bool(row["event"] == "join" and not row["error_code"] and known)


def _generations(names: PageNames, events: Sequence[Event]) -> list[Plain]:
    """Return the rebalances of the classic protocol in the order of time."""
    joined, synced = _by_generation(filter(_is_join, events)), _by_generation(filter(_is_sync, events))
    signs = [row for row in events if _is_sign(row)]
    times = [row["time_ns"] for row in signs]
    result: list[Plain] = []
    before: set[str] = set()
    ended = 0
    for generation, joins in sorted(joined.items(), key=lambda item: min(row["time_ns"] for row in item[1])):
        answered = max(row["time_ns"] for row in joins)
        syncs = synced.get(generation, [])
        since = signs[bisect_right(times, ended) : bisect_right(times, answered)]
        asked = [row["asked_ns"] for row in joins if row["asked_ns"] is not None] or [answered]
        start = min([*asked, *(row["time_ns"] for row in since)])
        end = max([answered, *(row["time_ns"] for row in syncs)])
        members = {row["member_id"] for row in joins if row["member_id"]}
        left = {row["member_id"] for row in since if row["event"] == "leave"} & before
        result.append(
            {
                "generation": generation,
                "start": names.since(start),
                "end": names.since(end),
                "members": len(members),
                "joined": sorted(members - before),
                "left": sorted(left),
                "gone": sorted(before - members - left),
                "complete": bool(syncs),
                "reasons": sorted({row["reason"] for row in joins if row["reason"]})[:5],
                "ref": names.row_ref(min(joins, key=lambda row: row["asked_ns"] or row["time_ns"])),
            }
        )
        before, ended = members, end
    return result


def _by_generation(events: Iterable[Event]) -> dict[int, list[Event]]:
    result: dict[int, list[Event]] = {}
    for row in events:
        result.setdefault(row["generation"], []).append(row)
    return result


def _is_sync(row: Event) -> bool:
    return bool(row["event"] == "sync" and not row["error_code"] and row["generation"] is not None)


def _is_sign(row: Event) -> bool:
    event, code = row["event"], row["error_code"]
    return event == "leave" or (event == "error" and int(code or 0) == ErrorCode.REBALANCE_IN_PROGRESS)


def _epochs(names: PageNames, events: Sequence[Event]) -> list[Plain]:
    """Return the epochs that members received, in the order of time."""
    by_epoch = _by_generation(filter(_is_epoch, events))
    leaves = [row for row in events if row["event"] == "leave"]
    times = [row["time_ns"] for row in leaves]
    result: list[Plain] = []
    latest = 0
    for epoch, listed in sorted(by_epoch.items()):
        start, end = (pick(row["time_ns"] for row in listed) for pick in (min, max))
        gone = leaves[bisect_right(times, latest) : bisect_right(times, start)]
        result.append(
            {
                "generation": epoch,
                "start": names.since(start),
                "end": names.since(end),
                "members": len({row["member_id"] for row in listed}),
                "joined": sorted(
                    {row["member_id"] for row in listed if row["event"] == "join" and row["member_id"]}
                ),
                "left": sorted({row["member_id"] for row in gone if row["member_id"]}),
                "gone": [],
                "complete": True,
                "reasons": [],
                "ref": names.row_ref(min(listed, key=lambda row: row["time_ns"])),
            }
        )
        latest = start
    return result


def _is_epoch(row: Event) -> bool:
    return bool(row["event"] in ("join", "epoch") and not row["error_code"] and (row["generation"] or 0) > 0)


def _members(names: PageNames, events: Sequence[Event], rebalances: Sequence[Plain]) -> list[Plain]:
    """Return the members in the order of their first step, and how each ended: left, gone, or neither."""
    result: dict[str, Plain] = {}
    for row in events:
        member = row["member_id"]
        if not member:
            continue
        time = names.since(row["time_ns"])
        one = result.get(member)
        if one is None:
            if row["event"] == "leave" or row["error_code"]:
                continue
            client = names.client(row["client_id"], row["client_host"])
            one = result[member] = {
                "id": member,
                "instance": row["instance_id"],
                "client": client,
                "from": time,
                "to": None,
                "end": None,
                "leads": [],
            }
        if _is_join(row):
            one |= {"to": None, "end": None}
            if row["leader"] and row["api_key"] == ApiKey.JOIN_GROUP:
                one["leads"].append(row["generation"])
        elif row["event"] == "leave" and not row["error_code"]:
            one |= {"to": time, "end": "left"}
    for rebalance in rebalances:
        for member in rebalance["gone"]:
            if member in result and result[member]["to"] is None:
                result[member] |= {"to": rebalance["end"], "end": "gone"}
    for one in result.values():
        if one["to"] is None:
            one |= _last_seen(names, one)
    return sorted(result.values(), key=lambda one: one["from"])


def _last_seen(names: PageNames, member: Plain) -> Plain:
    """Return until when a member that never left was seen; one that is silent for long is gone."""
    last = names.summary.capture.last_time_ns
    if member["client"] == NOT_SINGLED_OUT or last is None:
        return {}
    heard = names.clients.figures[member["client"]].last_time_ns or last
    return {"to": names.since(heard), "end": "gone" if last - heard > SILENT_NS else None}


def group_of_client(members: Mapping[str, Iterable[int]]) -> dict[int, str]:
    """Return the group of each client that is in one only: its fetches count for that group."""
    result: dict[int, set[str]] = {}
    for group, clients in members.items():
        for client in clients:
            result.setdefault(client, set()).add(group)
    return {client: next(iter(some)) for client, some in result.items() if len(some) == 1}
