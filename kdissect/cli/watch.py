"""`kdissect watch`: a directory that captures are written to in, a line for each interval and tables out."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from kdissect.cli.watch_options import NS_PER_S
from kdissect.errors import UsageError

if TYPE_CHECKING:
    from kdissect.spark.session import Engine
    from kdissect.spark.watch.watch_query import BatchReport, WatchSettings


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
    with ExitStack() as stack:
        observers = [_printer(arguments), *_hook(arguments, notice, stack)]
        engine = stack.enter_context(Engine.start(settings))
        stack.enter_context(spark_errors_explained(engine))
        if kernel_cache.is_missing():
            notice("first run: compiling, once, for a minute")
            kernel_cache.compile_first()
        _run(engine, arguments, observers)


def _run(
    engine: "Engine", arguments: argparse.Namespace, observers: "Sequence[Callable[[BatchReport], None]]"
) -> None:
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

        def on_batch(report: "BatchReport") -> None:
            for observer in observers:
                observer(report)

        WatchQuery(engine, settings, store, on_batch).run()
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


def _printer(arguments: argparse.Namespace) -> "Callable[[BatchReport], None]":
    """Return what prints the lines of a batch."""
    from kdissect.live.watch_events import events, text_lines

    def show(report: "BatchReport") -> None:
        jsonl = arguments.format == "jsonl"
        for line in map(json.dumps, events(report)) if jsonl else text_lines(report):
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    return show


def _hook(
    arguments: argparse.Namespace, notice: "Callable[[str], None]", stack: ExitStack
) -> "Iterator[Callable[[BatchReport], None]]":
    """Yield what calls the command or URL of --on-incident, if there is one."""
    if arguments.on_incident:
        from kdissect.live.incident_hook import IncidentHook
        from kdissect.live.watch_events import incident_events

        hook = IncidentHook(arguments.on_incident, notice)
        stack.callback(hook.close)

        def call(report: "BatchReport") -> None:
            for event in incident_events(report):
                hook.put(event)

        yield call
