"""`kdissect watch`: a directory that captures are written to in, a line for each interval and tables out."""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kdissect.cli.filter_options import duration_argument
from kdissect.cli.options import add_keylog, add_port, add_quiet, count_argument
from kdissect.errors import UsageError
from kdissect.text import escape, format_clock, format_count, format_duration

if TYPE_CHECKING:
    from kdissect.report.incidents.incident_log import KnownIncident
    from kdissect.spark.session import Engine
    from kdissect.spark.watch.watch_query import BatchReport, WatchSettings

NS_PER_S = 1_000_000_000
PER_MILLE = (500, 990)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add the options of `kdissect watch`."""
    parser.description = (
        "Follow a directory that a ring of captures is written to: a line for each interval, and tables that "
        "grow. A run that was stopped or killed goes on where it was."
    )
    parser.add_argument("directory", metavar="DIR", help="directory of captures; it may be empty yet")
    parser.add_argument(
        "--every",
        type=duration_argument,
        default=5 * NS_PER_S,
        metavar="TIME",
        help="look for closed files this often (default: 5s)",
    )
    parser.add_argument(
        "--out", metavar="DIR", help="append the tables to this directory, as Parquet by hour (UTC)"
    )
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep what is not finished here, to go on after a stop (default: DIR/_checkpoint of --out; "
        "without --out nothing is kept)",
    )
    _add_batches(parser)
    parser.add_argument(
        "--format", choices=("text", "jsonl"), default="text", help="form of the lines (default: text)"
    )
    parser.add_argument(
        "--master", type=_local_master, default="local[*]", metavar="URL", help="where Spark runs: local[N]"
    )
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


def _add_batches(parser: argparse.ArgumentParser) -> None:
    """Add the options that decide when which files are read."""
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
        help="when no file was closed for this long, end all connections and stop (default: never)",
    )
    parser.add_argument(
        "--max-files",
        type=count_argument,
        default=64,
        metavar="N",
        help="files that are read at a time at most (default: 64)",
    )


def watch(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.cli.context import notify, silent, spark_errors_explained
    from kdissect.jit import kernel_cache
    from kdissect.spark.session import Engine, SparkSettings
    from kdissect.spark.watch.watch_query import NOT_QUIET

    if not Path(arguments.directory).is_dir():
        raise UsageError(f"{arguments.directory} is not a directory: watch follows directories of captures")
    notice = silent if arguments.quiet else (lambda line: notify(f"kdissect: {line}"))
    settings = SparkSettings(master=arguments.master, confs=NOT_QUIET, notice=notice)
    with Engine.start(settings) as engine, spark_errors_explained(engine):
        if kernel_cache.is_missing():
            notice("first run: compiling, once, for a minute")
            kernel_cache.compile_first()
        _run(engine, arguments)


def _run(engine: "Engine", arguments: argparse.Namespace) -> None:
    from kdissect.spark.watch.batch_store import BatchStore, CheckpointError
    from kdissect.spark.watch.watch_query import WatchQuery

    settings = _settings(arguments)
    out = Path(arguments.out).absolute() if arguments.out else None
    if arguments.checkpoint:
        checkpoint = Path(arguments.checkpoint).absolute()
    else:
        checkpoint = engine.temporary / "checkpoint" if out is None else out / "_checkpoint"
    store = BatchStore(checkpoint, out, settings.about())
    try:
        if store.last.finished:
            raise CheckpointError(
                f"the watch of {checkpoint} is finished: use another checkpoint, or remove this one"
            )
        lines = _json_lines if arguments.format == "jsonl" else _text_lines
        WatchQuery(engine, settings, store, lambda report: _show(lines(report))).run()
    finally:
        store.close()


def _settings(arguments: argparse.Namespace) -> "WatchSettings":
    from kdissect.spark.watch.watch_query import WatchSettings

    idle = arguments.until_idle
    return WatchSettings(
        directory=str(Path(arguments.directory).absolute()),
        every_s=arguments.every / NS_PER_S,
        ports=tuple(arguments.port),
        keylog=arguments.keylog,
        partitions=arguments.partitions,
        most_files=arguments.max_files,
        settle_s=arguments.settle / NS_PER_S,
        until_idle_s=None if idle is None else idle / NS_PER_S,
    )


def _show(lines: list[str]) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _text_lines(report: "BatchReport") -> list[str]:
    """Return the lines about a batch: what there was, and what is missing."""
    figures = _figures(report)
    rate = f" ({format_count(figures['per_second'])}/s)" if figures["per_second"] else ""
    parts = [
        format_clock(report.commit.now_ns) if report.commit.now_ns else "--:--:--",
        f"{report.files} file{'s' * (report.files != 1)}",
        f"{format_count(figures['exchanges'])} exchanges{rate}",
        f"p50 {format_duration(figures['p50_ns'])}",
        f"p99 {format_duration(figures['p99_ns'])}",
        f"{format_count(figures['errors'])} errors",
        f"{format_count(figures['unanswered'])} unanswered",
        f"{format_count(figures['open_connections'])} connections open",
    ]
    changes = [
        f"incident {known.number} {kind}: {known.severity}: {escape(known.headline)}"
        for kind, known in ((one.change.value, one.incident) for one in report.incidents)
    ]
    return [*(f"missing: {escape(notice)}" for notice in report.notices), "  ".join(parts), *changes]


def _json_lines(report: "BatchReport") -> list[str]:
    notices = [{"event": "notice", "batch": report.commit.batch, "text": text} for text in report.notices]
    incidents = [
        {
            "event": "incident",
            "change": one.change.value,
            "batch": report.commit.batch,
            **_shown(one.incident),
        }
        for one in report.incidents
    ]
    return [json.dumps(line) for line in [*notices, {"event": "interval", **_figures(report)}, *incidents]]


def _shown(incident: "KnownIncident") -> dict[str, Any]:
    return {name: value for name, value in asdict(incident).items() if name not in ("last_ns", "closed")}


def _figures(report: "BatchReport") -> dict[str, Any]:
    """Return the figures of a batch by name; times in ns, None where there is nothing to say."""
    figures, commit = report.figures, report.commit
    exchanges = figures.rows.get("exchanges", 0)
    p50, p99 = figures.percentiles(PER_MILLE)
    return {
        "batch": commit.batch,
        "time_ns": commit.now_ns or None,
        "files": report.files,
        "exchanges": exchanges,
        "per_second": round(exchanges * NS_PER_S / report.span_ns) if report.span_ns > 0 else None,
        "p50_ns": p50,
        "p99_ns": p99,
        "errors": figures.errors,
        "unanswered": figures.unanswered,
        "open_connections": figures.open,
        "aged_connections": figures.aged,
        "state_bytes": figures.state_bytes,
        "seconds": round(report.seconds, 3),
        "lost_files": commit.lost,
    }


def _local_master(text: str) -> str:
    if text != "local" and not text.startswith("local["):
        raise argparse.ArgumentTypeError(f"{text!r}: watch runs on this machine only so far, as in local[2]")
    return text
