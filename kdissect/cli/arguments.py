"""What may be said on the command line; importing this loads nothing that takes time."""

import argparse
import math
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from kdissect import __version__
from kdissect.cli.filters import add_filters
from kdissect.safe import visible

TABLES = ("connections", "exchanges", "partitions", "group_events", "transaction_events")
RANKINGS = ("api", "client", "broker", "topic", "group", "connection")
RELEASES = ("4.0", "4.1", "4.2", "4.3")
FORMATS = ("parquet", "jsonl", "csv")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)\])?|spark://.+|yarn|k8s://.+")

WHAT_PATHS_ARE = (
    "capture files (pcap or pcapng, plain, gzip or zstd), directories of them, or - for standard input"
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {visible(message)} (try {self.prog} --help)\n")
        raise SystemExit(2)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments. Exits 2 when they are wrong, 0 after --help and --version."""
    from kdissect.cli.dump import add_dump
    from kdissect.cli.replay import add_replay
    from kdissect.cli.schema import add_schema

    parser = _Parser(
        prog="kdissect", description="Dissect, explain and replay Apache Kafka traffic from packet captures."
    )
    parser.add_argument("--version", action="version", version=f"kdissect {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_analyze(commands.add_parser("analyze", help="report on the Kafka traffic of captures"))
    _add_export(commands.add_parser("export", help="write the tables behind the report"))
    _add_sql(commands.add_parser("sql", help="ask the tables in Spark SQL"))
    _add_who(commands.add_parser("who", help="list who writes and who reads a topic"))
    _add_diff(commands.add_parser("diff", help="compare two captures or two reports"))
    _add_ready(commands.add_parser("ready", help="list what a newer Kafka would break"))
    add_dump(commands.add_parser("dump", help="show every exchange in time order"))
    add_replay(
        commands.add_parser("replay", help="send captured traffic to another cluster, and tell what differed")
    )
    add_schema(commands.add_parser("schema", help="show which APIs, versions and fields are known"))
    return parser.parse_args(arguments)


def _add_analyze(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Report on the Kafka traffic of captures: who did what, how fast, and what went wrong."
    )
    _add_common(parser)
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="of the report on standard output"
    )
    parser.add_argument(
        "--by",
        choices=RANKINGS,
        default=RANKINGS[0],
        help="what the profile ranks by the time it took (default: api)",
    )
    parser.add_argument("--full", action="store_true", help="every section of the text, not just one screen")
    parser.add_argument(
        "--fail-on",
        action="append",
        default=[],
        metavar="CONDITION",
        help="exit with 3 if it holds: finding=severity (slow_broker=warning, any=critical) or a limit ('produce.p99>50ms')",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="also write report.txt (in full) and report.json into this directory, or URI",
    )
    parser.add_argument(
        "--html", metavar="FILE", help="also write the report as one HTML page that needs nothing else"
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write the public tables, each row one connection, exchange, topic-partition, or step of a group or transaction."
    _add_common(parser)
    parser.add_argument(
        "--table",
        required=True,
        nargs="+",
        action="extend",
        choices=(*TABLES, "all"),
        help="one, several, or all",
    )
    parser.add_argument("--format", choices=FORMATS, default="parquet", help="file format (default: parquet)")
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="directory to make, or URI; each table is a directory in it",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DIR if it is there")


def _add_sql(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Answer a question in Spark SQL over the tables connections, exchanges and partitions."
    )
    parser.add_argument(
        "query", metavar="QUERY", help="such as 'SELECT api_name, count(*) FROM exchanges GROUP BY ALL'"
    )
    _add_common(parser)
    parser.add_argument(
        "--format", choices=("text", "csv", "jsonl"), default="text", help="of the answer (default: text)"
    )
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="stop after so many rows (text: 1000 if nothing is said)"
    )


def _add_who(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List who writes a topic and who reads it: clients, addresses, software, groups, rates."
    )
    parser.add_argument("named", metavar="TOPIC", help="name of the topic; * and ? stand for anything")
    _add_common(parser)
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer")


def _add_diff(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compare two captures, or two JSON reports of analyze: what got slower, what fails now, which clients changed."
    parser.add_argument("before", metavar="BEFORE", help="capture, directory of captures, or JSON report")
    parser.add_argument("after", metavar="AFTER", help="the same")
    _add_common(parser, paths=False)
    parser.add_argument(
        "--by", choices=RANKINGS[:-1], help="what rows are of (default: api, or what a kept report ranks by)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer")


def _add_ready(parser: argparse.ArgumentParser) -> None:
    parser.description = "List what a newer Kafka would break: API versions and message formats it no longer serves, and who uses them."
    _add_common(parser)
    parser.add_argument(
        "--for", dest="release", choices=RELEASES, default=RELEASES[0], help="the release (default: 4.0)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="of the answer")


def _add_common(parser: argparse.ArgumentParser, *, paths: bool = True) -> None:
    if paths:
        parser.add_argument("paths", nargs="+", metavar="PATH", help=WHAT_PATHS_ARE)
    parser.add_argument(
        "--master",
        type=_master,
        default="local[*]",
        metavar="URL",
        help="where Spark runs (default: local[*], all cores)",
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
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but what is wrong")
    parser.add_argument("--split-bytes", type=_size, metavar="N", help="capture bytes per task, such as 32m")
    add_filters(parser)
    add_anonymize(parser)
    parser.add_argument(
        "--partitions", type=_count, metavar="N", help="groups of connections to work in (default: by size)"
    )


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
    if text.startswith("sc://"):
        raise argparse.ArgumentTypeError(
            "Spark Connect has no RDDs, which this needs: name the cluster itself (spark://…, yarn, k8s://…), "
            "or read captures in a notebook by spark.read.format('kdissect')"
        )
    if not MASTERS.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no Spark master; local[*], local[2] and spark://host:7077 are"
        )
    return text


def port(text: str) -> int:
    """Read a TCP port."""
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no TCP port (1 to 65535)")
    return int(text)


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([kmg]?)b?", text.lower())
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; 33554432 and 32m are")
    return int(found[1]) * UNITS[found[2]]


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= math.isqrt(1 << 32):
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 65536")
    return int(text)
