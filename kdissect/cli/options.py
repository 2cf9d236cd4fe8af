"""Options that several commands share, and how their values are read."""

import argparse
import math
import os
import re
import sys
from typing import TYPE_CHECKING

from kdissect.cli.filter_options import add_filters, duration_argument
from kdissect.cli.secret_sources import ANONYMIZE_VARIABLE, read_secret
from kdissect.text import escape_control, parse_size

if TYPE_CHECKING:
    from kdissect.tables.anonymize import Pseudonyms

TABLES = ("connections", "exchanges", "partitions", "group_events", "transaction_events")
RECORD_TABLES = ("records",)
"""Tables with what producers wrote, which are made only where they are asked for by name."""

REPORT_TABLES = ("signals", "incidents")
"""Tables that are made from a whole report, not row by row."""

ROW_TABLES = (*TABLES, *RECORD_TABLES)
EVERY_TABLE = (*ROW_TABLES, *REPORT_TABLES)

RANKINGS = ("api", "client", "broker", "topic", "group", "connection")
MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)\])?|spark://.+|yarn|k8s://.+|sc://.+")

WHAT_PATHS_ARE = (
    "capture files (pcap or pcapng, plain, gzip or zstd), directories of them, or - for standard input"
)


def add_common(parser: argparse.ArgumentParser, *, paths: bool = True) -> None:
    """Add the options that choose what is read, how much of it, and where Spark runs."""
    add_reading(parser, paths=paths)
    add_filters(parser)
    add_anonymize(parser)


def add_reading(parser: argparse.ArgumentParser, *, paths: bool = True) -> None:
    """Add the options that choose which captures are read, and where Spark runs."""
    if paths:
        parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--master",
        type=master_argument,
        default=os.environ.get("SPARK_REMOTE") or "local[*]",
        metavar="URL",
        help="where Spark runs (default: local[*], all cores)",
    )
    place.add_argument(
        "--remote",
        type=_remote,
        dest="master",
        default=argparse.SUPPRESS,
        metavar="URL",
        help="Spark Connect server to run on: sc://host:15002 (default: SPARK_REMOTE, if set)",
    )
    add_port(parser)
    add_keylog(parser)
    add_quiet(parser)
    add_spool(parser)
    parser.add_argument(
        "--split-bytes", type=size_argument, metavar="N", help="bytes of a capture for each task, such as 32m"
    )
    parser.add_argument(
        "--partitions",
        type=count_argument,
        metavar="N",
        help="number of groups that connections are divided into (default: by size)",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Add --quiet."""
    parser.add_argument(
        "--quiet", action="store_true", help="print only warnings and errors on standard error"
    )


def add_color(parser: argparse.ArgumentParser) -> None:
    """Add --color, for a command whose output is text."""
    parser.add_argument(
        "--color",
        choices=("auto", "always", "never"),
        default="auto",
        help="colours in text; auto: on a terminal, unless NO_COLOR is set (default: auto)",
    )


def add_ranking(parser: argparse.ArgumentParser) -> None:
    """Add what a report shows, and when it fails: --by, --full and --fail-on."""
    parser.add_argument(
        "--by",
        choices=RANKINGS,
        default=RANKINGS[0],
        help="what the profile ranks by service time (default: api)",
    )
    parser.add_argument("--full", action="store_true", help="show every section, not just one screen")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 3 if this condition is met: finding=severity (slow_broker=warning, "
        "any=critical) or a limit ('produce.p99>50ms')",
    )


def add_port(parser: argparse._ActionsContainer) -> None:
    """Add the option that limits the work to some TCP ports."""
    parser.add_argument(
        "--port",
        type=port_argument,
        action="append",
        default=[],
        metavar="N",
        help="read only this TCP port; repeatable",
    )


def add_keylog(parser: argparse.ArgumentParser) -> None:
    """Add --keylog."""
    parser.add_argument(
        "--keylog",
        metavar="FILE",
        help="TLS key log (SSLKEYLOGFILE format); decrypts the sessions that it covers",
    )


def add_anonymize(parser: argparse.ArgumentParser) -> None:
    """Add --anonymize and --anonymize-key-file."""
    parser.add_argument(
        "--anonymize",
        action="store_true",
        help="replace names of hosts, clients, topics, groups, transactions and files by "
        "pseudonyms that differ in each run",
    )
    parser.add_argument(
        "--anonymize-key-file",
        metavar="FILE",
        help="anonymize with the key in the first line of this file, - asks for it: the same key gives "
        f"the same names in every run; with --anonymize, ${ANONYMIZE_VARIABLE} may hold it instead",
    )


def add_exchange_filters(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the filters of commands that look at single exchanges. Return their group."""
    filters = add_filters(parser)
    filters.add_argument(
        "--connection",
        action="append",
        default=[],
        metavar="ID",
        help="connection number, or host:port of either end",
    )
    filters.add_argument(
        "--slower-than",
        type=duration_argument,
        metavar="TIME",
        help="only exchanges with a higher latency, such as 50ms",
    )
    add_port(filters)
    return filters


def add_spool(parser: argparse.ArgumentParser) -> None:
    """Add the option for the place of unpacked captures."""
    parser.add_argument(
        "--spool",
        metavar="DIR",
        help="directory or URI into which compressed captures and standard input are unpacked; "
        "on a cluster, executors must share it (default: TMPDIR)",
    )


def master_argument(text: str) -> str:
    """Return the URL of a Spark master. Raise ArgumentTypeError."""
    if not MASTERS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a Spark master; examples: local[*], local[2], spark://host:7077"
        )
    return text


def _remote(text: str) -> str:
    if not text.startswith("sc://"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a Spark Connect server; example: sc://host:15002")
    return text


def port_argument(text: str) -> int:
    """Return a TCP port. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a TCP port (1 to 65535)")
    return int(text)


def size_argument(text: str) -> int:
    """Return a size in bytes. Raise ArgumentTypeError."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count_argument(text: str) -> int:
    """Return a number from 1 to 65536. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= math.isqrt(1 << 32):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 65536")
    return int(text)


def positive_argument(text: str) -> int:
    """Return a whole number above 0. Raise ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal()) or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def pseudonyms_of(arguments: argparse.Namespace) -> "Pseudonyms | None":
    """Return the replacements of names, the same in all calls; None unless options want them."""
    if not anonymizes(arguments):
        return None
    if not hasattr(arguments, "pseudonyms"):
        from kdissect.tables.anonymize import Pseudonyms

        file = arguments.anonymize_key_file
        key = read_secret("key of --anonymize", file, ANONYMIZE_VARIABLE, _warn)
        arguments.pseudonyms = Pseudonyms.new(key)
    found: Pseudonyms = arguments.pseudonyms
    return found


def anonymizes(arguments: argparse.Namespace) -> bool:
    """Return whether --anonymize or --anonymize-key-file is given."""
    return bool(arguments.anonymize) or arguments.anonymize_key_file is not None


def _warn(sentence: str) -> None:
    sys.stderr.write(f"kdissect: {escape_control(sentence)}\n")
