"""Options that several commands have, and how their values are read."""

import argparse
import math
import os
import re

from kdissect.cli.filter_options import add_filters
from kdissect.text import parse_size

TABLES = ("connections", "exchanges", "partitions", "group_events", "transaction_events")
RANKINGS = ("api", "client", "broker", "topic", "group", "connection")
MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)\])?|spark://.+|yarn|k8s://.+|sc://.+")

WHAT_PATHS_ARE = (
    "capture files (pcap or pcapng, plain, gzip or zstd), directories of them, or - for standard input"
)


def add_common(parser: argparse.ArgumentParser, *, paths: bool = True) -> None:
    """Let the user say what is read, how much of it, and where Spark runs."""
    if paths:
        parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--master",
        type=_master,
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
        help="… on which Spark Connect server: sc://host:15002 (default: SPARK_REMOTE, if it is set)",
    )
    parser.add_argument(
        "--port",
        type=port,
        action="append",
        default=[],
        metavar="N",
        help="look only at this TCP port; repeatable",
    )
    add_keylog(parser)
    add_quiet(parser)
    parser.add_argument(
        "--spool",
        metavar="DIR",
        help="where compressed captures and standard input are unpacked to, for a cluster one that executors share, or URI (default: TMPDIR)",
    )
    parser.add_argument("--split-bytes", type=size, metavar="N", help="capture bytes per task, such as 32m")
    add_filters(parser)
    add_anonymize(parser)
    parser.add_argument(
        "--partitions", type=count, metavar="N", help="groups of connections to work in (default: by size)"
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Say how to have nothing said but what is wrong."""
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but what is wrong")


def add_keylog(parser: argparse.ArgumentParser) -> None:
    """Let the user name a key log."""
    parser.add_argument(
        "--keylog", metavar="FILE", help="TLS secrets as SSLKEYLOGFILE has them: read what they protect"
    )


def add_anonymize(parser: argparse.ArgumentParser) -> None:
    """Let the user give what is written away."""
    parser.add_argument(
        "--anonymize",
        action="store_true",
        help="replace the names of hosts, clients, topics, groups, transactions and files, each time by others",
    )
    parser.add_argument(
        "--anonymize-key", metavar="TEXT", help="… by the same ones whenever this text is given"
    )


def _master(text: str) -> str:
    if not MASTERS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no Spark master; local[*], local[2] and spark://host:7077 are"
        )
    return text


def _remote(text: str) -> str:
    if not text.startswith("sc://"):
        raise argparse.ArgumentTypeError(f"{text!r} is no Spark Connect server; sc://host:15002 is")
    return text


def port(text: str) -> int:
    """Read a TCP port."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no TCP port (1 to 65535)")
    return int(text)


def size(text: str) -> int:
    """Read a size in bytes."""
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count(text: str) -> int:
    """Read a number from 1 to 65536."""
    if not text.isdecimal() or not 1 <= int(text) <= math.isqrt(1 << 32):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 65536")
    return int(text)
