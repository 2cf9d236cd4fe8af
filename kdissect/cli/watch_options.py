"""The options of `kdissect watch`."""

import argparse

from kdissect.cli.filter_options import add_filters, duration_argument
from kdissect.cli.options import (
    add_keylog,
    add_port,
    add_quiet,
    add_spool,
    count_argument,
    master_argument,
    port_argument,
    positive_argument,
    size_argument,
)

NS_PER_S = 1_000_000_000
LOOPBACK = "127.0.0.1"


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect watch`."""
    parser.description = (
        "Follow captures that never end, in a directory, from a pipe or on an interface: a line for each "
        "interval, and tables that grow. A run that was stopped or killed goes on where it was. A terminal "
        "shows a screen: q quits it with a report, tab changes the table, enter shows a row, / filters, "
        "s sorts, p pauses, w writes the last minute as a slice, ? helps."
    )
    parser.add_argument(
        "directory",
        nargs="?",
        metavar="DIR|URI",
        help="directory of captures, which may be empty yet, here or in an object store or HDFS; - reads a "
        "capture from standard input",
    )
    _add_interface(parser)
    parser.add_argument(
        "--out",
        metavar="DIR|URI",
        help="append the tables to this directory, or at this URI, as Parquet by hour (UTC)",
    )
    parser.add_argument(
        "--out-format",
        choices=("parquet", "delta"),
        default="parquet",
        help="delta: the tables are Delta tables, too, each with a log of its files (default: parquet)",
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR|URI",
        help="keep what is not finished here, to go on after a stop (default: _checkpoint in --out; "
        "without --out nothing is kept)",
    )
    _add_batches(parser)
    parser.add_argument(
        "--format",
        choices=("text", "jsonl"),
        help="form of the lines (default: a live screen on a terminal, else text)",
    )
    _add_beside(parser)
    parser.add_argument(
        "--master",
        type=_master_of_streams,
        default="local[*]",
        metavar="URL",
        help="where Spark runs, such as spark://host:7077, whose executors can read DIR "
        "(default: local[*], all cores)",
    )
    add_spool(parser)
    add_port(parser)
    parser.add_argument(
        "--partitions",
        type=count_argument,
        default=4,
        metavar="N",
        help="number of groups that connections are divided into (default: 4)",
    )
    add_keylog(parser)
    add_quiet(parser)
    add_filters(parser)


def _add_beside(parser: argparse.ArgumentParser) -> None:
    """Add the options of what is done beside the batches."""
    parser.add_argument(
        "--on-incident",
        metavar="COMMAND|URL",
        help="when an incident opens, changes or closes, start this command with the event as JSON on its "
        "standard input, or POST it to this URL",
    )
    parser.add_argument(
        "--keep",
        type=duration_argument,
        metavar="TIME",
        help="remove captures that were read and not written to for this long, and no other files "
        "(default: remove none)",
    )
    parser.add_argument(
        "--metrics",
        type=_listener,
        metavar="[HOST]:PORT",
        help="serve metrics (OpenMetrics) over HTTP; without HOST to this machine only",
    )
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="send the same metrics to this OpenTelemetry collector (OTLP over HTTP) after batches, "
        "such as http://localhost:4318",
    )


def _add_interface(parser: argparse.ArgumentParser) -> None:
    """Add the options of a capture on this machine."""
    parser.add_argument(
        "--interface",
        metavar="NAME",
        help="in place of DIR: capture on this interface with tcpdump, which must be allowed to",
    )
    parser.add_argument(
        "--snaplen",
        type=positive_argument,
        default=262_144,
        metavar="BYTES",
        help="capture this much of each packet with --interface (default: 262144, all of it)",
    )
    parser.add_argument(
        "--buffer",
        type=size_argument,
        default=64 << 20,
        metavar="SIZE",
        help="buffer of the kernel for --interface (default: 64m)",
    )
    parser.add_argument(
        "--immediate",
        action="store_true",
        help="with --interface: take each packet at once, which shows it about a second earlier and costs "
        "several times the processor time; above some 10,000 packets a second the kernel may drop some",
    )


def _add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide when which files are read."""
    parser.add_argument(
        "--every",
        type=duration_argument,
        default=5 * NS_PER_S,
        metavar="TIME",
        help="look for new packets this often (default: 5s)",
    )
    parser.add_argument(
        "--settle",
        type=duration_argument,
        default=30 * NS_PER_S,
        metavar="TIME",
        help="a file is closed when a newer one of its series exists, or when it has not grown for this "
        "long (default: 30s)",
    )
    parser.add_argument(
        "--until-idle",
        type=duration_argument,
        metavar="TIME",
        help="when nothing came for this long, end all connections and stop (default: never)",
    )
    parser.add_argument(
        "--max-files",
        type=count_argument,
        default=64,
        metavar="N",
        help="files that are read at a time at most (default: 64)",
    )
    parser.add_argument(
        "--skip-behind",
        type=duration_argument,
        metavar="TIME",
        help="skip files that were written to for the last time so much earlier than the newest one, and "
        "count them: tables then hold a sample (default: read all)",
    )


def _master_of_streams(text: str) -> str:
    """Return the URL of a Spark master. Raise ArgumentTypeError."""
    if text.startswith("sc://"):
        raise argparse.ArgumentTypeError(f"{text!r}: watch runs on no Spark Connect server")
    return master_argument(text)


def _listener(text: str) -> tuple[str, int]:
    """Return the host and the port to listen on. Raise ArgumentTypeError."""
    host, colon, port = text.rpartition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text!r} is not [HOST]:PORT; examples: :9464, 0.0.0.0:9464")
    return host.strip("[]") or LOOPBACK, port_argument(port)
