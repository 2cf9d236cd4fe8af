"""`kdissect dump`: captures in, every exchange out, in time order."""

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kdissect.cli.filter_options import (
    add_filters,
    duration,
    narrowing,
)
from kdissect.cli.options import WHAT_PATHS_ARE, add_anonymize, add_keylog, port
from kdissect.cli.pseudonyms import (
    pseudonyms_of,
)
from kdissect.errors import UsageError
from kdissect.files import ScratchDirectory
from kdissect.text import escape_control

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.exchanges.filter import MessageFilter
    from kdissect.tables.anonymize import Pseudonyms

SPLIT_BYTES = 2 << 20  # read at a time
WRITE_BYTES = 1 << 16


def add_dump(parser: argparse.ArgumentParser) -> None:
    """Say what may be said after `kdissect dump`."""
    parser.description = (
        "Show every exchange of captures in time order: request, response, and what they mean."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        default="text",
        help="a tree for people, or one JSON object a line",
    )
    parser.add_argument("--brief", action="store_true", help="one line of text for each exchange")
    parser.add_argument(
        "--records", action="store_true", help="show records: offset, time, key, value, headers"
    )
    parser.add_argument("--show-secrets", action="store_true", help="show passwords, tokens and salts too")
    parser.add_argument("--limit", type=_count, metavar="N", help="stop after so many exchanges")
    add_keylog(parser)
    add_anonymize(parser)
    chosen = add_filters(parser)
    chosen.add_argument(
        "--connection",
        action="append",
        default=[],
        metavar="ID",
        help="number of a connection, or host:port of an end",
    )
    chosen.add_argument("--slower-than", type=duration, metavar="TIME", help="answered later than, say, 50ms")
    chosen.add_argument(
        "--port", type=port, action="append", default=[], metavar="N", help="look only at this TCP port"
    )


def dump(chosen: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.capture.index.index import index_captures
    from kdissect.capture.inputs import open_inputs

    pseudonyms = pseudonyms_of(chosen)
    if pseudonyms and (chosen.records or chosen.show_secrets):
        raise UsageError(
            "what is in records and secrets has no other names: without --anonymize, or without them"
        )
    with ScratchDirectory() as spool:
        inputs = open_inputs(chosen.paths, str(spool))
        found = index_captures(inputs.files, SPLIT_BYTES)
        warnings = (*(f"passed over {reason}" for reason in inputs.skipped), *found.warnings)
        if pseudonyms:
            warnings = pseudonyms.texts(warnings, [file.name for file in inputs.files])
        for warning in warnings:
            sys.stderr.write(f"kdissect: {escape_control(warning)}\n")
        waiting: list[str] = []
        held = 0
        for line in _lines(chosen, found, pseudonyms):
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
    chosen: argparse.Namespace, found: "CaptureIndex", pseudonyms: "Pseudonyms | None"
) -> Iterator[str]:
    from kdissect.dump.anonymize_messages import (
        Hidden,
        hidden_heading,
        hidden_topics,
    )
    from kdissect.dump.jsonl import (
        exchange_object,
        heading,
        to_json,
    )
    from kdissect.dump.lines import brief, full
    from kdissect.exchanges.decoded import DecodedExchange
    from kdissect.exchanges.describe import Showing
    from kdissect.exchanges.prescan import look_ahead
    from kdissect.exchanges.reader import Follower
    from kdissect.streams.tls.keylog import keys_for
    from kdissect.tables.filters import Known

    choice = _choice(chosen, found.earliest_time_ns or 0)
    keys = keys_for(chosen.keylog, found.files)
    foresight = look_ahead(found.splits, chosen.port, keys)
    follower = Follower(found.splits, chosen.port, foresight, keys)
    names = hidden_topics(foresight.names, pseudonyms) if pseudonyms else foresight.names
    showing = Showing(names, chosen.records, chosen.show_secrets)
    left = chosen.limit
    rows = partial(choice.rows, known=Known({}, foresight.nodes))
    for exchange in follower.exchanges(rows, choice.until_ns):
        spoken = DecodedExchange(exchange)
        if not choice.message(spoken, foresight.names):
            continue
        above = heading(spoken, follower)
        if pseudonyms:
            spoken, above = Hidden(spoken, pseudonyms), hidden_heading(above, pseudonyms)
        if chosen.brief and chosen.format == "text":
            yield brief(spoken, above, names)
        elif chosen.format == "text":
            yield from full(spoken, exchange_object(spoken, above, showing), names)
        else:
            yield to_json(exchange_object(spoken, above, showing))
        if left is not None:
            left -= 1
            if not left:
                return


def _choice(chosen: argparse.Namespace, start_ns: int) -> "MessageFilter":
    from kdissect.exchanges.filter import MessageFilter

    return MessageFilter(
        **narrowing(chosen, start_ns),
        connections=frozenset(chosen.connection),
        slower_than_ns=chosen.slower_than,
    )


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0")
    return int(text)
