"""`kdissect dump`: captures in, every exchange out, in time order.

The first Ctrl-C ends the reading, and what was found until then is written. `-A`, `-B` and `-C` show
exchanges around the matches (see `dump.context_window`).
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from kdissect.cli.dump_input import open_dump_input, warn
from kdissect.cli.filter_options import exchange_filter, given_filters
from kdissect.cli.interrupt import first_interrupt
from kdissect.cli.options import (
    WHAT_PATHS_ARE,
    add_anonymize,
    add_color,
    add_exchange_filters,
    add_keylog,
    positive_argument,
    pseudonyms_of,
)
from kdissect.cli.payload_options import add_schemas, add_where, payload_decoder
from kdissect.errors import ExitCode, UsageError
from kdissect.files import ScratchDirectory, processor_count

if TYPE_CHECKING:
    from kdissect.cli.dump_input import DumpInput
    from kdissect.dump.context_window import ShownExchange
    from kdissect.dump.heading import HeadingFacts
    from kdissect.exchanges.decoded import DecodedExchange
    from kdissect.exchanges.describe_records import PayloadOptions
    from kdissect.exchanges.exchange_workers import PackedBatch
    from kdissect.exchanges.filter import ExchangeFilter
    from kdissect.tables.anonymize import Pseudonyms

WRITE_BYTES = 1 << 16
NOTHING_MATCHES = "no exchange of these captures matches the filters"
NO_EXCHANGE = "these captures hold no Kafka exchange that can be read"
MATCH, CONTEXT = "> ", "  "
"""Beginning of a line if exchanges around matches are shown, too."""

CONTEXT_OPTIONS = (("-B", "before", "before"), ("-A", "after", "after"), ("-C", "around", "before and after"))
"""Option, attribute, and which exchanges it adds."""


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
    for option, name, where in CONTEXT_OPTIONS:
        parser.add_argument(
            option,
            dest=name,
            type=positive_argument,
            metavar="N",
            help=f"also show the N exchanges {where} each match on its connection",
        )
    add_color(parser)
    add_keylog(parser)
    add_anonymize(parser)
    add_schemas(parser)
    add_exchange_filters(parser)
    add_where(parser)


def dump(arguments: argparse.Namespace) -> int:
    """Run the command. Return 1 if there is no exchange to show."""
    pseudonyms = pseudonyms_of(arguments)
    if pseudonyms and (arguments.records or arguments.where or arguments.show_secrets):
        raise UsageError(
            "--anonymize cannot be combined with --records, --where or --show-secrets: their contents "
            "have no pseudonyms"
        )
    output, matches = _Output(), 0
    with ScratchDirectory() as spool, first_interrupt() as interrupt:
        opened = open_dump_input(arguments, spool, pseudonyms, interrupt, output.flush)
        with opened.passes.progress:
            payload = _payload_options(arguments, opened)
            is_stopped = interrupt.since_now()
            if _is_for_workers(arguments, opened):
                matches = _write_by_workers(arguments, opened, pseudonyms, is_stopped)
            else:
                lines_of = _lines_of(arguments, opened, opened.reader, pseudonyms, payload)
                for shown in _shown_exchanges(arguments, opened, is_stopped, payload):
                    output.write(lines_of(shown))
                    matches += shown.is_match
                output.flush()
        is_cut_short = arguments.limit is not None and matches >= arguments.limit
        if not is_cut_short and (warning := opened.last_warning()):
            warn(warning)
        if interrupt.has_come and not opened.is_live:
            warn(f"{opened.passes.interruption or 'interrupted'}; {_exchanges(matches)} shown")
            return ExitCode.INTERRUPTED
    if not matches:
        warn(NOTHING_MATCHES if _is_narrowed(arguments) else NO_EXCHANGE)
        return ExitCode.NOTHING_FOUND
    return ExitCode.DONE


def _exchanges(count: int) -> str:
    return "1 exchange is" if count == 1 else f"{count:,} exchanges are"


class _Output:
    """Lines on their way to standard output, many at a time."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._held = 0

    def write(self, lines: Iterable[str]) -> None:
        """Add lines, and write all of them when there are many."""
        for line in lines:
            self._waiting.append(line)
            self._held += len(line)
        if self._held > WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write all lines as UTF-8, whatever the terminal's locale says."""
        sys.stdout.buffer.write(_encoded(self._waiting))
        sys.stdout.buffer.flush()
        self._waiting.clear()
        self._held = 0


def _encoded(lines: Iterable[str]) -> bytes:
    return "\n".join([*lines, ""]).encode("utf-8", "backslashreplace")


def _is_for_workers(arguments: argparse.Namespace, opened: "DumpInput") -> bool:
    """Return whether several processes may make the lines: of files, without context, limit or records."""
    has_context = arguments.before or arguments.after or arguments.around
    has_records = arguments.records or arguments.where is not None
    return not (opened.is_live or has_context or has_records or arguments.limit) and processor_count() > 1


def _write_by_workers(
    arguments: argparse.Namespace,
    opened: "DumpInput",
    pseudonyms: "Pseudonyms | None",
    is_stopped: Callable[[], bool],
) -> int:
    """Write all exchanges that match, until reading `is_stopped`. Return how many match."""
    from kdissect.exchanges.exchange_workers import packed_batches, texts_in_order

    selection, matches = exchange_filter(arguments, opened.start_ns), 0
    texts_of = _texts_of(arguments, opened, pseudonyms, selection)
    packed = opened.reader.packed_exchanges(selection.header_mask, selection.until_ns)
    batches = takewhile(lambda _batch: not is_stopped(), packed_batches(packed, opened.reader))
    for count, text in texts_in_order(batches, texts_of):
        matches += count
        sys.stdout.buffer.write(text)
        sys.stdout.buffer.flush()
    return matches


def _texts_of(
    arguments: argparse.Namespace,
    opened: "DumpInput",
    pseudonyms: "Pseudonyms | None",
    selection: "ExchangeFilter",
) -> "Callable[[PackedBatch], tuple[int, bytes]]":
    """Return the function that returns how many exchanges of a batch match, and their text."""
    from kdissect.dump.context_window import ShownExchange
    from kdissect.exchanges.decoded import DecodedExchange
    from kdissect.exchanges.describe_records import PayloadOptions
    from kdissect.exchanges.exchange import unpack
    from kdissect.exchanges.exchange_workers import BatchFacts

    facts = BatchFacts(opened.reader.file_name)
    lines_of = _lines_of(arguments, opened, facts, pseudonyms, PayloadOptions())
    names = opened.facts.names

    def texts(batch: "PackedBatch") -> tuple[int, bytes]:
        facts.connections = batch.connections
        decoded = map(DecodedExchange, map(unpack, batch.exchanges))
        wanted = [exchange for exchange in decoded if selection.selects(exchange, names)]
        return len(wanted), _encoded(line for one in wanted for line in lines_of(ShownExchange(one, True)))

    return texts


def _payload_options(arguments: argparse.Namespace, opened: "DumpInput") -> "PayloadOptions":
    """Return how records are decoded, which reads the schemas, and which are shown."""
    from kdissect.exchanges.describe_records import PayloadOptions

    return PayloadOptions(payload_decoder(arguments, opened.splits), arguments.where)


def _is_narrowed(arguments: argparse.Namespace) -> bool:
    given = arguments.connection or arguments.slower_than or arguments.port or arguments.where
    return bool(given_filters(arguments) or given)


def _shown_exchanges(
    arguments: argparse.Namespace,
    opened: "DumpInput",
    is_stopped: Callable[[], bool],
    payload: "PayloadOptions",
) -> "Iterator[ShownExchange]":
    """Yield the exchanges to show until the limit is reached, or an interrupt ends the reading of files."""
    from kdissect.dump.context_window import ContextWindow

    around = arguments.around or 0
    window = ContextWindow(arguments.before or around, arguments.after or around)
    left = arguments.limit
    for decoded, matches in _read_exchanges(arguments, opened, payload, window.is_wanted):
        if is_stopped() and not opened.is_live:
            return
        is_match = matches and left != 0
        yield from window.add(decoded, is_match)
        if is_match and left is not None:
            left -= 1
        if left == 0 and not window.is_open:
            break
    if window.dropped:
        warn(f"{window.dropped:,} exchanges before matches are not shown: they would take too much memory")


def _read_exchanges(
    arguments: argparse.Namespace, opened: "DumpInput", payload: "PayloadOptions", all_of_them: bool
) -> "Iterator[tuple[DecodedExchange, bool]]":
    """Yield exchanges, and whether each matches; those that do not are left out unless `all_of_them`."""
    from kdissect.exchanges.decoded import DecodedExchange
    from kdissect.exchanges.filter import ExchangeFilter
    from kdissect.exchanges.topic_records import any_record_matches

    reader, names = opened.reader, opened.facts.names
    selection = exchange_filter(arguments, opened.start_ns)
    read = ExchangeFilter() if all_of_them else selection
    for exchange in reader.exchanges(read.header_mask, read.until_ns):
        decoded = DecodedExchange(exchange)
        matches = not all_of_them or selection.header_selects(exchange, reader)
        matches = matches and selection.selects(decoded, names)
        matches = matches and (payload.where is None or any_record_matches(decoded, names, payload))
        if matches or all_of_them:
            yield decoded, matches


def _lines_of(
    arguments: argparse.Namespace,
    opened: "DumpInput",
    reader: "HeadingFacts",
    pseudonyms: "Pseudonyms | None",
    payload: "PayloadOptions",
) -> "Callable[[ShownExchange], Iterable[str]]":
    """Return the function that writes an exchange as the options want it."""
    from kdissect.dump.exchange_text import brief_line, full_lines
    from kdissect.dump.heading import exchange_heading
    from kdissect.dump.jsonl import dump_line, exchange_line, exchange_object
    from kdissect.exchanges.anonymize_messages import AnonymizedExchange, anonymize_heading
    from kdissect.exchanges.describe import DescribeOptions
    from kdissect.report.render.terminal import terminal_of

    has_context = bool(arguments.before or arguments.after or arguments.around)
    records, secrets = arguments.records or arguments.where is not None, arguments.show_secrets
    if arguments.format == "jsonl" and not (has_context or pseudonyms):
        plain = DescribeOptions(opened.facts.names, records, secrets, payload)
        return lambda shown: [exchange_line(shown.decoded, reader, plain)]
    names_of = _topic_names(opened, pseudonyms)
    terminal = terminal_of(sys.stdout, color=arguments.color)

    def lines(shown: "ShownExchange") -> Iterable[str]:
        decoded = shown.decoded
        heading, names = exchange_heading(shown.decoded, reader), names_of()
        if pseudonyms:
            decoded = AnonymizedExchange(decoded, pseudonyms)
            heading = anonymize_heading(heading, pseudonyms)
        mark = (MATCH if shown.is_match else CONTEXT) if has_context else ""
        if arguments.brief and arguments.format == "text":
            return [mark + brief_line(decoded, heading, names, terminal)]
        showing = DescribeOptions(names, records, secrets, payload)
        fields = exchange_object(decoded, heading, showing)
        if arguments.format == "text":
            first, *others = full_lines(decoded, fields, names, terminal)
            return [mark + first, *others]
        return [dump_line(fields | {"match": shown.is_match} if has_context else fields)]

    return lines


def _topic_names(opened: "DumpInput", pseudonyms: "Pseudonyms | None") -> "Callable[[], Mapping[bytes, str]]":
    """Return the function that returns the names of topics by id, of which a pipe may bring more."""
    from kdissect.exchanges.anonymize_messages import anonymize_topic_names

    known = opened.facts.names
    if pseudonyms is None:
        return lambda: known
    hidden: dict[bytes, str] = {}
    count = -1

    def names() -> Mapping[bytes, str]:
        nonlocal count, hidden
        if len(known) != count:
            count, hidden = len(known), anonymize_topic_names(known, pseudonyms)
        return hidden

    return names
