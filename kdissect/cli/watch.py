"""`kdissect watch`: captures that never end in, a line for each interval and tables out."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.capture.formats.file_types import STANDARD_INPUT
from kdissect.cli.filter_options import given_filters, table_filter
from kdissect.cli.interrupt import first_interrupt
from kdissect.cli.watch_options import NS_PER_S
from kdissect.cli.watch_places import check_cluster_captures, opened_store, watched_directory
from kdissect.errors import UsageError

WITHOUT_SCREEN = ("dumb", "unknown")
"""Terminals that cannot move the cursor, by TERM."""

if TYPE_CHECKING:
    from kdissect.report.model.summary import Summary
    from kdissect.spark.session import Engine
    from kdissect.spark.watch.batch_job import BatchReport
    from kdissect.spark.watch.batch_store import BatchStore
    from kdissect.spark.watch.watch_settings import WatchSettings
    from kdissect.spark.watch.watched_directory import WatchedDirectory


def watch(arguments: argparse.Namespace) -> None:
    """Run the command."""
    from kdissect.cli.context import notify, silent, spark_errors_explained
    from kdissect.jit import kernel_cache
    from kdissect.live.stream_source import StreamSource
    from kdissect.spark.session import Engine
    from kdissect.spark.spark_settings import RunKind, SparkSettings

    notice = silent if arguments.quiet else (lambda line: notify(f"kdissect: {line}"))
    settings = SparkSettings(master=arguments.master, notice=notice, kind=RunKind.STREAM)
    if not settings.local:
        check_cluster_captures(arguments)
    with ExitStack() as stack:
        hooks = list(_hook(arguments, stack))
        source = _source(arguments, stack)
        accounts = [source.account] if isinstance(source, StreamSource) else []
        observers = [*accounts, *hooks, *_metrics(arguments, stack), *_otlp(arguments, stack)]
        engine = stack.enter_context(Engine.start(settings))
        stack.enter_context(spark_errors_explained(engine))
        if settings.local and kernel_cache.is_missing():
            notice("first run: compiling, once, for a minute")
            kernel_cache.compile_first()
        display = stack.enter_context(_display(arguments, source))
        _run(engine, arguments, source, [*observers, display])


def _source(arguments: argparse.Namespace, stack: ExitStack) -> "WatchedDirectory":
    """Return what is watched, and begin to capture if that is wanted. Raise UsageError."""
    from kdissect.live.stream_source import CaptureSettings, captured, piped

    place, interface, every_s = arguments.directory, arguments.interface, arguments.every / NS_PER_S
    if (place is None) == (interface is None):
        raise UsageError("watch needs one of DIR, - and --interface NAME")
    if interface is not None:
        settings = CaptureSettings(
            interface, arguments.port, arguments.snaplen, arguments.buffer, arguments.immediate
        )
        return stack.enter_context(captured(settings, every_s))
    if place == STANDARD_INPUT:
        interrupt = stack.enter_context(first_interrupt())
        return stack.enter_context(piped(sys.stdin.buffer, interrupt.descriptor, every_s))
    return watched_directory(place)


def _run(
    engine: "Engine",
    arguments: argparse.Namespace,
    source: "WatchedDirectory",
    observers: "Sequence[Callable[[BatchReport], None]]",
) -> None:
    from kdissect.spark.watch.batch_store import CheckpointError
    from kdissect.spark.watch.watch_query import WatchQuery

    settings = _settings(arguments, source)
    work = engine.temporary / "checkpoint"
    with opened_store(arguments.checkpoint, arguments.out, source, settings.about(), work) as store:
        delta = _delta_tables(arguments, store)
        if store.last.finished:
            raise CheckpointError("this watch is finished: use another checkpoint, or remove this one")
        kept = _retention(arguments, source, store)

        first_batch = store.last.batch + 1

        def on_batch(report: "BatchReport") -> None:
            if report.commit.batch == first_batch:
                engine.end_sql_workers()  # the stream has begun, and is the only one
            for observer in (*delta, *observers, *kept):
                observer(report)

        WatchQuery(engine, settings, store, on_batch).run()


def _settings(arguments: argparse.Namespace, source: "WatchedDirectory") -> "WatchSettings":
    from kdissect.live.stream_source import StreamSource
    from kdissect.report.model.summary import AppliedFilter
    from kdissect.spark.watch.watch_settings import WatchSettings

    idle = arguments.until_idle
    own = isinstance(source, StreamSource)  # files have their names when they are closed
    return WatchSettings(
        source=source,
        every_s=arguments.every / NS_PER_S,
        ports=tuple(arguments.port),
        keylog=arguments.keylog,
        partitions=arguments.partitions,
        most_files=arguments.max_files,
        settle_s=0 if own else arguments.settle / NS_PER_S,
        until_idle_s=None if idle is None else idle / NS_PER_S,
        spool=arguments.spool,
        skip_behind_s=_skip_behind_s(arguments, own),
        filters=tuple(AppliedFilter(option=name, values=values) for name, values in given_filters(arguments)),
        filter_from=partial(table_filter, arguments),
    )


def _skip_behind_s(arguments: argparse.Namespace, own: bool) -> float | None:
    """Return how far a watch of a directory may be behind; None without a bound. Raise UsageError."""
    if arguments.skip_behind is None:
        return None
    if own:
        raise UsageError("--skip-behind is for directories: an own ring skips what it has no room for")
    if arguments.keep is not None:
        raise UsageError("--keep removes what was read, and --skip-behind leaves files unread: choose one")
    return float(arguments.skip_behind / NS_PER_S)


@contextmanager
def _display(
    arguments: argparse.Namespace, source: "WatchedDirectory"
) -> "Iterator[Callable[[BatchReport], None]]":
    """Show the screen if that is possible and no format is wanted, else lines. To quit is no error."""
    can_show = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") not in WITHOUT_SCREEN
    if arguments.format is not None or not can_show:
        yield _printer(arguments)
        return
    from kdissect.live.live_view import live_view
    from kdissect.live.minute_slice import MinuteSlice
    from kdissect.live.stream_source import StreamSource

    if isinstance(source, StreamSource):
        source.keep_last_minute()
    with live_view(source.label, sys.stdin.fileno(), MinuteSlice(Path.cwd(), arguments.keylog)) as view:
        try:
            yield view.account
        except KeyboardInterrupt:
            if not view.has_quit:
                raise
    if view.has_quit and view.recent is not None:
        print_recent(view.recent, arguments.out)


def print_recent(summary: "Summary", out: str | None) -> None:
    """Print the report of the last ten minutes, when the screen is gone; `out` is the place of --out."""
    from kdissect.report.render.report_text import render
    from kdissect.report.render.terminal import terminal_of

    sys.stdout.write(render(summary, terminal_of(sys.stdout)))
    if out is not None:
        sys.stdout.write(f"The last ten minutes; all that was seen: kdissect report {out}\n")
    sys.stdout.flush()


def _printer(arguments: argparse.Namespace) -> "Callable[[BatchReport], None]":
    """Return what prints the lines of a batch."""
    from kdissect.live.watch_events import events, text_lines

    def show(report: "BatchReport") -> None:
        jsonl = arguments.format == "jsonl"
        for line in map(json.dumps, events(report)) if jsonl else text_lines(report):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    return show


def _hook(arguments: argparse.Namespace, stack: ExitStack) -> "Iterator[Callable[[BatchReport], None]]":
    """Yield what calls the command or URL of --on-incident, if there is one."""
    if arguments.on_incident:
        from kdissect.cli.context import notify
        from kdissect.live.incident_hook import IncidentHook
        from kdissect.live.watch_events import incident_events

        hook = IncidentHook(arguments.on_incident, lambda sentence: notify(f"kdissect: {sentence}"))
        stack.callback(hook.close)

        def call(report: "BatchReport") -> None:
            for event in incident_events(report):
                hook.put(event)

        yield call


def _metrics(arguments: argparse.Namespace, stack: ExitStack) -> "Iterator[Callable[[BatchReport], None]]":
    """Yield what counts for --metrics, if that is wanted. Raise UsageError."""
    if arguments.metrics:
        try:
            from kdissect.live.metrics import served
        except ModuleNotFoundError:
            raise UsageError("--metrics needs prometheus-client: pip install 'kdissect[metrics]'") from None
        yield stack.enter_context(served(*arguments.metrics)).account


def _otlp(arguments: argparse.Namespace, stack: ExitStack) -> "Iterator[Callable[[BatchReport], None]]":
    """Yield what counts for --otlp, if that is wanted. Raise UsageError."""
    if arguments.otlp:
        from kdissect.cli.context import notify

        try:
            from kdissect.live.otlp import exported
        except ModuleNotFoundError:
            raise UsageError("--otlp needs the SDK of OpenTelemetry: pip install 'kdissect[otlp]'") from None
        export = exported(arguments.otlp, lambda sentence: notify(f"kdissect: {sentence}"))
        yield stack.enter_context(export).account


def _delta_tables(
    arguments: argparse.Namespace, store: "BatchStore"
) -> "list[Callable[[BatchReport], None]]":
    """Return what adds files to Delta tables, if that is wanted. Raise UsageError, OutputError."""
    from kdissect.spark.watch.table_places import NearTables

    if arguments.out_format != "delta":
        return []
    if not isinstance(store.tables, NearTables):
        raise UsageError("--out-format delta needs --out with a directory of this machine")
    try:
        from kdissect.live.delta_tables import DeltaTables
    except ModuleNotFoundError:
        raise UsageError("--out-format delta needs deltalake: pip install 'kdissect[delta]'") from None
    return [DeltaTables(store).account]


def _retention(
    arguments: argparse.Namespace, source: "WatchedDirectory", store: "BatchStore"
) -> "list[Callable[[BatchReport], None]]":
    """Return what removes files for --keep, if that is wanted. An own ring needs no such option."""
    from kdissect.cli.context import notify
    from kdissect.live.retention import Retention
    from kdissect.live.stream_source import StreamSource
    from kdissect.spark.watch.file_journal import taken_files

    if arguments.keep is None:
        return []
    if isinstance(source, StreamSource):
        raise UsageError("--keep is for directories: an own ring keeps nothing")
    # Which files an earlier run has skipped is not kept: then all of its files stay.
    taken = [] if any(store.last.skipped) else taken_files(store.journal, store.last.taken)
    return [Retention(arguments.keep, taken, lambda line: notify(f"kdissect: {line}")).account]
