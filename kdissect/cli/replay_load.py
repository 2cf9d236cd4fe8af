"""`kdissect replay load`: captures in, a replay log out, by the same Spark job as `analyze`.

The log appears under its name when it is complete. `--out` is checked before Spark starts.
"""

import argparse
import json
import os
import secrets
from functools import partial
from pathlib import Path

from kdissect.cli.context import analysis_run, notify
from kdissect.errors import OutputError, UsageError
from kdissect.files import UnfinishedOutput


def load_log(chosen: argparse.Namespace) -> None:
    """Run the command."""
    folder = Path(chosen.out)
    if os.path.lexists(folder):  # no error for a name that is too long
        raise UsageError(f"{folder} already exists; a replay log is never overwritten")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with UnfinishedOutput(folder) as unfinished:
            requests = _write(chosen, unfinished.directory(mode=0o700))
            unfinished.move()
    except OSError as error:
        raise OutputError.of(folder, error) from None
    if not chosen.quiet:
        notify(f"kdissect: {requests:,} requests written to {folder}")


def _write(chosen: argparse.Namespace, folder: Path) -> int:
    """Write a log to a folder. Return the number of its requests."""
    with analysis_run(chosen, partial=False) as run:  # a half log would be taken for that of the capture
        from kdissect.replay.load.log_files import CapturedFile, LogFacts
        from kdissect.replay.load.log_merge import merge_parts
        from kdissect.replay.load.log_part import PART, log_step
        from kdissect.spark import jobs
        from kdissect.spark.progress import JobProgress

        captures = []
        for each in run.index.files:
            if each.file.spooled or not os.path.isfile(each.file.path):
                captures.append(CapturedFile(each.file.name, ""))
            else:
                path = os.path.abspath(each.file.path)
                found = os.stat(path)
                captures.append(CapturedFile(each.file.name, path, found.st_size, found.st_mtime_ns))
        paths = {
            each.file.path: number for number, each in enumerate(run.index.files) if captures[number].path
        }
        step = partial(
            log_step,
            splits=run.work.splits,
            keys=run.work.treatment.keys,
            captures=paths,
            folder=os.path.abspath(folder),
            salt=secrets.token_bytes(16),
        )
        with JobProgress(run.engine.context(), chosen.quiet, meters=run.work.meters):
            batches = jobs.dissected(run.engine.context(), run.work, step)
        facts = LogFacts(
            captures,
            run.index.earliest_time_ns or 0,
            run.index.latest_time_ns or 0,
            warnings=list(run.index.warnings),
        )
        parts = [json.loads(text) for batch in batches for text in batch[PART].to_pylist()]
        merge_parts(folder, sorted(parts, key=lambda part: str(part["name"])), facts)
    return facts.requests
