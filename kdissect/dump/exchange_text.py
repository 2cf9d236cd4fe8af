"""Exchanges as text: one line each, alone (`brief`) or leading the tree of all that was said (`full`)."""

from collections.abc import Iterator
from typing import Any

from kdissect.dump.tree_text import (
    quote,
    safe,
    tree_lines,
)
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.filter import (
    ERROR_ROLES,
    mentioned_groups,
    mentioned_topics,
)
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.kafka07.message_codec import old_error_name
from kdissect.text import format_timestamp

NAMES_SHOWN = 3
STATUSES = {
    "unanswered": "UNANSWERED",
    "no_response_expected": "no response expected",
    "orphan_response": "NO REQUEST",
}


def brief_line(spoken: DecodedExchange, said: dict[str, Any], names: dict[bytes, str]) -> str:
    """Write who asked whom for what, how long it took, and what came of it."""
    return "  ".join(part for part in _parts(spoken, said, names) if part)


def full_lines(spoken: DecodedExchange, said: dict[str, Any], names: dict[bytes, str]) -> Iterator[str]:
    """Write the brief line and, indented below it, request and response."""
    yield brief_line(spoken, said, names)
    for half in ("request", "response"):
        if said[half] is None:
            continue
        yield f"  {half}: {_about(said, half)}"
        header, body, fault = (said[half].get(part) for part in ("header", "body", "fault"))
        for tag, raw in header.get("_tags", ()):
            yield f"    unknown tagged field of the header: {tag}, {len(raw)} bytes"
        if body is not None:
            yield from tree_lines(body, 2)
        if fault:
            where = f"{safe(fault['path'])} at byte" if fault["path"] else "at byte"
            yield f"    FAULT: {where} {fault['offset']}: {safe(fault['reason'])}"
    yield ""


def _about(said: dict[str, Any], half: str) -> str:
    parts = [f"{said[f'{half}_bytes']:,} bytes"]
    if said[f"{half}_packet"] is not None:
        parts.append(f"packet {said[f'{half}_packet']}")
    return ", ".join(parts)


def _parts(spoken: DecodedExchange, said: dict[str, Any], names: dict[bytes, str]) -> Iterator[str]:
    yield format_timestamp(spoken.exchange.first_ns)
    yield f"{said['client']} > {said['server']}"
    if said["api_name"] is not None:
        yield said["api_name"] + _version(spoken, said)
    if said["correlation_id"] is not None:
        yield f"#{said['correlation_id']}"
    if said["client_id"] is not None:
        yield quote(said["client_id"])
    yield STATUSES.get(said["status"], "")
    if said["latency_ns"] is not None:
        yield f"{said['latency_ns'] / 1e6:,.3f} ms"
    yield (
        "/".join(f"{size:,}" for size in (said["request_bytes"], said["response_bytes"]) if size is not None)
        + " bytes"
    )
    yield _some(mentioned_topics(spoken, names))
    yield _some(f"group {name}" for name in mentioned_groups(spoken))
    codes = dict.fromkeys(code for _, code, _ in spoken.mentions(ERROR_ROLES, responses_only=True) if code)
    yield ", ".join(map(old_error_name if spoken.exchange.old else error_name, codes))
    yield from _doubts(spoken, said)


def _version(spoken: DecodedExchange, said: dict[str, Any]) -> str:
    if spoken.exchange.token:
        return f" {safe(said['sasl_mechanism'] or 'of an unknown mechanism')}"
    return " of Kafka 0.7" if spoken.exchange.old else f" v{said['api_version']}"


def _doubts(spoken: DecodedExchange, said: dict[str, Any]) -> Iterator[str]:
    if said["lost_bytes"]:
        yield f"{said['lost_bytes']:,} bytes not captured"
    for half, whole in (("request", spoken.request), ("response", spoken.response)):
        if whole and whole.fault and said["api_key"] is not None:
            yield f"FAULT in {half}: {safe(str(whole.fault))}"


def _some(names: Iterator[str]) -> str:
    """Write the first few of many names."""
    known = list(dict.fromkeys(names))
    more = f" and {len(known) - NAMES_SHOWN} more" if len(known) > NAMES_SHOWN else ""
    return ", ".join(map(safe, known[:NAMES_SHOWN])) + more
