"""`kdissect slice`: captures in, a capture out that holds the packets of chosen exchanges."""

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.capture.storage import is_uri, local_path
from kdissect.cli.dump_input import open_and_index, warn
from kdissect.cli.filter_options import duration_argument, exchange_filter
from kdissect.cli.interrupt import Interrupt, first_interrupt
from kdissect.cli.options import (
    WHAT_PATHS_ARE,
    add_anonymize,
    add_exchange_filters,
    add_keylog,
    add_quiet,
    anonymizes,
    positive_argument,
    pseudonyms_of,
)
from kdissect.cli.reading_passes import ReadingPasses
from kdissect.errors import ExitCode, OutputError, UsageError, UserError
from kdissect.files import ScratchDirectory, UnfinishedOutput
from kdissect.text import escape_control, format_size

if TYPE_CHECKING:
    from kdissect.capture.index.index import CaptureIndex
    from kdissect.capture.inputs import Inputs
    from kdissect.slice.anonymized_streams import AnonymizedStreams
    from kdissect.slice.packet_selection import ConnectionSpan, ExchangeNumber, SliceRequest
    from kdissect.slice.slice_writer import SliceCounts
    from kdissect.streams.tls.keylog import KeyLog

EXCHANGE = re.compile(r"(\d{1,20})#(\d{1,20})")
PRIVATE = 0o600
NOTHING = "no exchange of these captures is selected: nothing was written"
NOT_OPENED = (
    "no TLS connection of the selection can be opened, so none can be anonymized: nothing was written"
)


def add_slice(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect slice`."""
    parser.description = (
        "Write the packets of chosen exchanges as captured: whole connections, with a comment on each "
        "packet that begins a chosen message."
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument("-o", "--out", required=True, metavar="FILE", help="pcapng file to write")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--only-exchanges",
        action="store_true",
        help="only packets with bytes of the chosen exchanges, without handshake and acknowledgments",
    )
    scope.add_argument(
        "--around",
        type=duration_argument,
        metavar="TIME",
        help="of their connections, only packets up to this time before and after a chosen exchange, "
        "such as 5s",
    )
    parser.add_argument(
        "--with-secrets",
        action="store_true",
        help="also write the secrets of the TLS sessions in the slice; only you can read the file then",
    )
    add_keylog(parser)
    add_quiet(parser)
    add_anonymize(parser)
    filters = add_exchange_filters(parser)
    filters.add_argument(
        "--exchange",
        type=exchange_argument,
        action="append",
        default=[],
        metavar="ID#N",
        help="exchange: connection number and ordinal, as tables and 'dump --format jsonl' have them",
    )
    filters.add_argument(
        "--incident",
        type=positive_argument,
        metavar="N",
        help="what the N-th incident of the report is about, from 1: its connections while it lasted",
    )


def slice(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from kdissect.streams.tls.keylog import keys_for

    if anonymizes(arguments) and arguments.with_secrets:
        raise UsageError("--anonymize writes plaintext without secrets: leave out --with-secrets")
    target = Path(local_path(arguments.out))
    _check_output(arguments.out, target)
    with ScratchDirectory() as spool, first_interrupt() as interrupt:
        inputs, found = open_and_index(arguments.paths, spool, interrupt, arguments.quiet)
        _check_target(target, inputs)
        for warning in (*(f"passed over {reason}" for reason in inputs.skipped), *found.warnings):
            warn(warning)
        try:
            part = UnfinishedOutput(target)
        except OSError as error:
            raise OutputError.of(target, error) from None
        with part:
            keys = keys_for(arguments.keylog, found.files)
            with interrupt.ends_at_once():  # a report of a part might have another incident N
                span = _incident_span(arguments, found, keys)
            passes = _passes(arguments, found)
            with passes.progress:
                summary = _write(arguments, found, keys, span, part, interrupt, passes)
            try:
                part.move()
            except OSError as error:  # a directory is there by now
                raise OutputError.of(target, error) from None
            if passes.interruption:
                warn(passes.interruption)
    if not arguments.quiet:
        sys.stderr.write(f"kdissect: wrote {escape_control(str(target))}: {summary}\n")
    return ExitCode.INTERRUPTED if interrupt.has_come else ExitCode.DONE


def exchange_argument(text: str) -> "ExchangeNumber":
    """Return the exchange that CONNECTION#ORDINAL names. Raise ArgumentTypeError."""
    from kdissect.slice.packet_selection import ExchangeNumber

    parts = EXCHANGE.fullmatch(text)
    if parts is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not an exchange; 4181226134213#17 is one: connection number and ordinal"
        )
    return ExchangeNumber(int(parts[1]), int(parts[2]))


def _check_output(out: str, target: Path) -> None:
    """Raise UserError if the slice cannot be written there."""
    if is_uri(out) or out == "-":
        raise UsageError("a slice is written to a local file: name one with --out")
    if os.path.isdir(target):  # no error for a name that is too long
        raise OutputError(f"cannot write to {target}: it is a directory")


def _check_target(target: Path, inputs: "Inputs") -> None:
    """Raise UsageError if the slice would replace what is read."""
    places = [place for file in inputs.files for place in (file.path, file.name) if os.path.exists(place)]
    if os.path.exists(target) and any(target.samefile(place) for place in places):
        raise UsageError(f"{target} is one of the captures to read: name another file with --out")


def _write(
    arguments: argparse.Namespace,
    found: "CaptureIndex",
    keys: "KeyLog",
    span: "ConnectionSpan | None",
    part: UnfinishedOutput,
    interrupt: Interrupt,
    passes: ReadingPasses,
) -> str:
    """Write the slice, of what is read until an interrupt. Return what is in it."""
    from kdissect.capture.index.index_prefix import index_prefix
    from kdissect.exchanges.prescan import prescan_capture
    from kdissect.exchanges.reader import ExchangeReader
    from kdissect.slice.packet_selection import PacketComments, select
    from kdissect.slice.session_secrets import SessionSecrets
    from kdissect.slice.slice_writer import SliceWriter

    first_pass = passes.begin(found.splits, interrupt.since_now())
    prescan = prescan_capture(found.splits, arguments.port, keys, first_pass)
    read = index_prefix(found, len(prescan.later_ns))
    anonymized = _anonymized(arguments)
    names = anonymized.comment_names(prescan.names) if anonymized else None
    comments = PacketComments()
    try:
        request = _request(arguments, found.earliest_time_ns or 0, span)
        second_pass = passes.begin(read.splits, interrupt.since_now())
        reader = ExchangeReader(read.splits, arguments.port, prescan, keys, second_pass)
        selection = select(reader, request, prescan.names, comments, names)
        if interrupt.has_come:
            read = index_prefix(read, reader.splits_read)
        if not selection.connections:
            raise UserError(NOTHING)
        rewriter = None
        if anonymized:
            to_the_end = passes.begin(read.splits, lambda: False)
            reader = ExchangeReader(read.splits, arguments.port, prescan, keys, to_the_end)
            rewriter = anonymized.read(reader, selection)
            if not selection.connections:
                raise UserError(NOT_OPENED)
        secrets = SessionSecrets(keys) if arguments.with_secrets else None
        with part.binary_file(PRIVATE if arguments.with_secrets else 0o666) as out:
            writer = SliceWriter(out, selection, secrets, rewriter)
            writer.write(read.files, passes.begin(read.splits, interrupt.since_now()))
    finally:
        comments.close()
        if anonymized:
            anonymized.close()
    summary = _summary(writer.counts, selection.exchanges, selection.connections)
    return summary + (_what_is_missing(anonymized) if anonymized else "")


def _passes(arguments: argparse.Namespace, found: "CaptureIndex") -> ReadingPasses:
    """Return the passes of a slice: for names, for exchanges, for new contents if asked for, and to copy."""
    rewriting = ("anonymizing",) if anonymizes(arguments) else ()
    names = ("reading packets", "dissecting", *rewriting, "writing packets")
    return ReadingPasses(found.splits, *names, quiet=arguments.quiet)


def _anonymized(arguments: argparse.Namespace) -> "AnonymizedStreams | None":
    """Return what makes the slice anonymous; None unless options want it."""
    pseudonyms = pseudonyms_of(arguments)
    if pseudonyms is None:
        return None
    from kdissect.slice.anonymized_streams import AnonymizedStreams
    from kdissect.slice.same_length_names import SameLengthPseudonyms

    return AnonymizedStreams(SameLengthPseudonyms(pseudonyms.key))


def _what_is_missing(anonymized: "AnonymizedStreams") -> str:
    counts = (
        (anonymized.left_out, "TLS connection", "left out, since {} cannot be opened"),
        (anonymized.blanked, "message", "blanked, since {} cannot be decoded"),
        (anonymized.opaque, "batch", "without records that can be read"),
    )
    return "".join(
        f"; {_counted(count, noun)} {what.format('it' if count == 1 else 'they')}"
        for count, noun, what in counts
        if count
    )


def _incident_span(
    arguments: argparse.Namespace, found: "CaptureIndex", keys: "KeyLog"
) -> "ConnectionSpan | None":
    """Return what the incident is about that the user chose, and name it; None if none was chosen."""
    if arguments.incident is None:
        return None
    from kdissect.cli.incident_choice import choose_incident
    from kdissect.slice.packet_selection import ConnectionSpan

    headline, about = choose_incident(arguments.incident, found, arguments.port, keys)
    if not arguments.quiet:
        sys.stderr.write(f"kdissect: incident {arguments.incident}: {escape_control(headline)}\n")
    end_ns = (found.latest_time_ns or 0) if about.end_ns is None else about.end_ns
    return ConnectionSpan(about.connections, about.begin_ns, end_ns)


def _request(arguments: argparse.Namespace, start_ns: int, span: "ConnectionSpan | None") -> "SliceRequest":
    from kdissect.slice.packet_selection import SliceRequest, SliceScope

    scope = SliceScope.CONNECTIONS
    if arguments.only_exchanges:
        scope = SliceScope.EXCHANGES
    elif arguments.around is not None:
        scope = SliceScope.AROUND
    selected = exchange_filter(arguments, start_ns)
    return SliceRequest(selected, frozenset(arguments.exchange), scope, arguments.around or 0, span)


def _summary(counts: "SliceCounts", exchanges: int, connections: int) -> str:
    text = (
        f"{_counted(counts.packets, 'packet')} ({format_size(counts.bytes)}) of "
        f"{_counted(exchanges, 'exchange')} on {_counted(connections, 'connection')}"
    )
    sessions = _counted(counts.secret_sessions, "TLS session")
    return f"{text}, with the secrets of {sessions}" if counts.secret_sessions else text


def _counted(count: int, thing: str) -> str:
    ending = "es" if thing.endswith("ch") else "s"
    return f"{count:,} {thing}{'' if count == 1 else ending}"
