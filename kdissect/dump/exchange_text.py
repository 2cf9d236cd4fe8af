"""Exchanges as text: one line that says what happened, and on request the messages below it.

In comes a decoded exchange with its object, as `jsonl.exchange_object` makes it, and the names of topics by
their ids. The line itself has what is unusual: no response, no request, lost bytes, errors, faults.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kdissect.dump.tree_text import quote, tree_lines
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.filter import error_codes, mentioned_groups, mentioned_topics
from kdissect.protocol.error_codes import error_name
from kdissect.protocol.kafka07.message_codec import kafka07_error_name
from kdissect.report.render.terminal import BOLD, CYAN, DIM, GREEN, RED, YELLOW, Terminal
from kdissect.text import escape, format_timestamp

NAMES_SHOWN = 3
PLAIN = Terminal()
STATUS_TEXTS = {
    "unanswered": "UNANSWERED",
    "no_response_expected": "no response expected",
    "orphan_response": "NO REQUEST",
}


def brief_line(
    decoded: DecodedExchange,
    fields: Mapping[str, Any],
    topic_names: Mapping[bytes, str],
    terminal: Terminal = PLAIN,
) -> str:
    """Return one line: time, exchange, both ends, API, latency, sizes, packets, names, errors, faults.

    `fields` are those of the exchange's heading, as `jsonl.exchange_heading` makes it. The exchange is its
    connection and ordinal, as `slice --exchange` takes it.
    """
    parts = _parts(decoded, fields, topic_names)
    return "  ".join(terminal.paint(text, style) for text, style in parts if text)


def full_lines(
    decoded: DecodedExchange,
    fields: Mapping[str, Any],
    topic_names: Mapping[bytes, str],
    terminal: Terminal = PLAIN,
) -> Iterator[str]:
    """Yield the brief line and, indented below it, request and response; an empty line follows.

    `fields` are those of the exchange's object, as `jsonl.exchange_object` makes it.
    """
    yield brief_line(decoded, fields, topic_names, terminal)
    for half in ("request", "response"):
        message = fields[half]
        if message is None:
            continue
        yield f"  {terminal.paint(f'{half}:', BOLD)} {_size_and_packet(fields, half)}"
        for tag, raw in message["header"].get("_tags", ()):
            yield f"    unknown tagged field of the header: {tag}, {len(raw)} bytes"
        if message["body"] is not None:
            yield from tree_lines(message["body"], 2)
        if fault := message.get("fault"):
            place = f"{escape(fault['path'])} at byte" if fault["path"] else "at byte"
            yield f"    FAULT: {place} {fault['offset']}: {escape(fault['reason'])}"
    yield ""


def _size_and_packet(fields: Mapping[str, Any], half: str) -> str:
    size, packet = fields[f"{half}_bytes"], fields[f"{half}_packet"]
    return f"{size:,} bytes" if packet is None else f"{size:,} bytes, packet {packet}"


def _parts(
    decoded: DecodedExchange, fields: Mapping[str, Any], topic_names: Mapping[bytes, str]
) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with its style."""
    yield format_timestamp(decoded.exchange.first_ns), DIM
    yield exchange_number(fields), DIM
    yield f"{fields['client']} > {fields['server']}", ""
    if fields["api_name"] is not None:
        yield fields["api_name"] + _version(decoded, fields), BOLD
    if fields["correlation_id"] is not None:
        yield f"#{fields['correlation_id']}", DIM
    if fields["client_id"] is not None:
        yield quote(fields["client_id"]), CYAN
    yield STATUS_TEXTS.get(fields["status"], ""), YELLOW
    if fields["latency_ns"] is not None:
        yield f"{fields['latency_ns'] / 1e6:,.3f} ms", ""
    yield _sizes(fields), DIM
    yield _packets(fields), DIM
    yield _first_names(mentioned_topics(decoded, topic_names)), GREEN
    yield _first_names(f"group {name}" for name in mentioned_groups(decoded)), GREEN
    name_of_error = kafka07_error_name if decoded.exchange.is_kafka07 else error_name
    codes = dict.fromkeys(error_codes(decoded))
    yield ", ".join(name_of_error(code) for code in codes if code), RED
    for doubt in _doubts(decoded, fields):
        yield doubt, RED


def exchange_number(fields: Mapping[str, Any]) -> str:
    """Return connection and ordinal, as `slice --exchange` takes them; an orphan response has no ordinal."""
    ordinal = fields["ordinal"]
    return str(fields["connection"]) + ("" if ordinal is None else f"#{ordinal}")


def _sizes(fields: Mapping[str, Any]) -> str:
    sizes = (fields[f"{half}_bytes"] for half in ("request", "response"))
    return "/".join(f"{size:,}" for size in sizes if size is not None) + " bytes"


def _packets(fields: Mapping[str, Any]) -> str:
    packets = [fields[f"{half}_packet"] for half in ("request", "response")]
    known = [str(packet) for packet in packets if packet is not None]
    return f"packet{'s' if len(known) > 1 else ''} {'/'.join(known)}" if known else ""


def _version(decoded: DecodedExchange, fields: Mapping[str, Any]) -> str:
    if decoded.exchange.is_token:
        return f" {escape(fields['sasl_mechanism'] or 'of an unknown mechanism')}"
    return " of Kafka 0.7" if decoded.exchange.is_kafka07 else f" v{fields['api_version']}"


def _doubts(decoded: DecodedExchange, fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield why the exchange is not shown in full: lost bytes, and faults of messages whose API is known."""
    if fields["lost_bytes"]:
        yield f"{fields['lost_bytes']:,} bytes not captured"
    for half, message in (("request", decoded.request), ("response", decoded.response)):
        if message and message.fault and fields["api_key"] is not None:
            yield f"FAULT in {half}: {escape(str(message.fault))}"


def _first_names(names: Iterable[str]) -> str:
    """Return the first few of many names, each once, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = f" and {len(distinct) - NAMES_SHOWN} more" if len(distinct) > NAMES_SHOWN else ""
    return ", ".join(map(escape, distinct[:NAMES_SHOWN])) + more
