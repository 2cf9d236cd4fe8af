"""`kdissect dump`: captures in, every exchange out, in time order."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kdissect.cli.filter_options import exchange_filter
from kdissect.cli.options import (
    WHAT_PATHS_ARE,
    add_anonymize,
    add_exchange_filters,
    add_keylog,
    positive_argument,
    pseudonyms_of,
)
from kdissect.errors import UsageError
from kdissect.files import ScratchDirectory
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.tables.anonymize import Pseudonyms

SPLIT_BYTES = 2 << 20  # read at a time
WRITE_BYTES = 1 << 16


def add_dump(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect dump`."""
    parser.description = (
        "Show every exchange of captures in time order: request, response, and what they mean."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="text tree, or one JSON object for each line",
    )
    parser.add_argument("--brief", action="store_true", help="one line of text for each exchange")
    parser.add_argument(
        "--records", action="store_true", help="show records: offset, time, key, value, headers"
    )
    parser.add_argument("--show-secrets", action="store_true", help="show passwords, tokens and salts too")
    parser.add_argument("--limit", type=positive_argument, metavar="N", help="stop after N exchanges")
    add_keylog(parser)
    add_anonymize(parser)
    add_exchange_filters(parser)


def dump(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.capture.index.index import index_captures
    from kdissect.capture.inputs import open_inputs

    pseudonyms = pseudonyms_of(arguments)
    if pseudonyms and (arguments.records or arguments.show_secrets):
        raise UsageError(
            "--anonymize cannot be combined with --records or --show-secrets: their contents "
            "have no pseudonyms"
        )
    with ScratchDirectory() as spool:
        inputs = open_inputs(arguments.paths, str(spool))
        found = index_captures(inputs.files, SPLIT_BYTES)
        warnings = (*(f"passed over {reason}" for reason in inputs.skipped), *found.warnings)
        if pseudonyms:
            warnings = pseudonyms.texts(warnings, [file.name for file in inputs.files])
        for warning in warnings:
            sys.stderr.write(f"kdissect: {escape_control(warning)}\n")
        waiting: list[str] = []
        held = 0
        for line in _lines(arguments, found, pseudonyms):
            waiting.append(line)
            held += len(line)
            if held > WRITE_BYTES:
                _write(waiting)
                held = 0
        _write(waiting)


def _write(lines: list[str]) -> None:
    """Write lines as UTF-8, whatever the terminal's locale says."""
    lines.append("")
    sys.stdout.buffer.write("\n".join(lines).encode("utf-8", "backslashreplace"))
    sys.stdout.buffer.flush()
    lines.clear()


def _lines(
    arguments: argparse.Namespace, found: "CaptureIndex", pseudonyms: "Pseudonyms | None"
) -> Iterator[str]:
    from kdissect.dump.anonymize_messages import (
        AnonymizedExchange,
        anonymize_heading,
        anonymize_topic_names,
    )
    from kdissect.dump.exchange_text import brief_line, full_lines
    from kdissect.dump.jsonl import (
        exchange_heading,
        exchange_object,
        json_line,
    )
    from kdissect.exchanges.decoded import DecodedExchange
    from kdissect.exchanges.describe import DescribeOptions
    from kdissect.exchanges.prescan import prescan_capture
    from kdissect.exchanges.reader import ExchangeReader
    from kdissect.streams.tls.keylog import keys_for

    selection = exchange_filter(arguments, found.earliest_time_ns or 0)
    keys = keys_for(arguments.keylog, found.files)
    prescan = prescan_capture(found.splits, arguments.port, keys)
    reader = ExchangeReader(found.splits, arguments.port, prescan, keys)
    names = anonymize_topic_names(prescan.names, pseudonyms) if pseudonyms else prescan.names
    showing = DescribeOptions(names, arguments.records, arguments.show_secrets)
    left = arguments.limit
    for exchange in reader.exchanges(selection.header_mask, selection.until_ns):
        decoded = DecodedExchange(exchange)
        if not selection.selects(decoded, prescan.names):
            continue
        header = exchange_heading(decoded, reader)
        if pseudonyms:
            decoded, header = AnonymizedExchange(decoded, pseudonyms), anonymize_heading(header, pseudonyms)
        if arguments.brief and arguments.format == "text":
            yield brief_line(decoded, header, names)
        elif arguments.format == "text":
            yield from full_lines(decoded, exchange_object(decoded, header, showing), names)
        else:
            yield json_line(exchange_object(decoded, header, showing))
        if left is not None:
            left -= 1
            if not left:
                return
