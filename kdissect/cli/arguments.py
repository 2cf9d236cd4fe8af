"""What may be said on the command line; importing this loads nothing that takes time."""

import argparse
import math
import re
import sys
from collections.abc import Sequence
from typing import NoReturn

from kdissect import __version__

TABLES = ("connections", "exchanges", "partitions")
FORMATS = ("parquet", "jsonl", "csv")
UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
MASTERS = re.compile(r"local(\[(\*|[1-9]\d*)\])?|spark://.+|yarn|k8s://.+")

WHAT_PATHS_ARE = (
    "capture files (pcap or pcapng, plain, gzip or zstd), directories of them, or - for standard input"
)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.stderr.write(f"{self.prog}: {message} (try {self.prog} --help)\n")
        raise SystemExit(2)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the arguments. Exits 2 when they are wrong, 0 after --help and --version."""
    from kdissect.cli.dump import add_dump
    from kdissect.cli.schema import add_schema

    parser = _Parser(
        prog="kdissect", description="Dissect and explain Apache Kafka traffic from packet captures."
    )
    parser.add_argument("--version", action="version", version=f"kdissect {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    _add_analyze(commands.add_parser("analyze", help="report on the Kafka traffic of captures"))
    _add_export(commands.add_parser("export", help="write the tables behind the report"))
    add_dump(commands.add_parser("dump", help="show every exchange in time order"))
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
        "--out", metavar="DIR", help="also write report.txt and report.json into this directory"
    )


def _add_export(parser: argparse.ArgumentParser) -> None:
    parser.description = "Write the public tables: connections, exchanges, partitions."
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
        "--out", required=True, metavar="DIR", help="directory to make; each table is a directory in it"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace DIR if it is there")


def _add_common(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("--quiet", action="store_true", help="nothing on standard error but what is wrong")
    parser.add_argument("--split-bytes", type=_size, metavar="N", help="capture bytes per task, such as 32m")
    parser.add_argument(
        "--partitions", type=_count, metavar="N", help="groups of connections to work in (default: by size)"
    )


def _master(text: str) -> str:
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
