"""Replay logs that a command makes on its own: large captures are read by Spark, once for all commands.

In: the paths of a command. Out: the paths that a replay reads: those of the captures, or of the log that was
made of them. Logs lie in the user's cache, in a directory for its owner only, under a name made of the names,
sizes and times of the captures. Logs of captures that have changed, and all but the last few, are removed. A
log made with --keylog has decrypted traffic, so it is temporary.

The log is made by another process: the memory of Spark is given back before anything is sent. Captures that
it cannot read are read here, which tells why.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from kdissect.cache_directory import cache_home
from kdissect.errors import UserError
from kdissect.files import ScratchDirectory
from kdissect.replay.load.log_files import FORMAT, is_log, open_log

FROM_BYTES = 32 << 20  # of captures: smaller ones are read before Spark has started
MOST_LOGS = 4  # that are kept
FOLDER = "replay-logs"
ENDING_S = 8.0  # that a process has to end when it is asked to


def logged_paths(
    chosen: argparse.Namespace, stack: ExitStack, notice: Callable[[str], None]
) -> tuple[Sequence[str], Sequence[int], str | None]:
    """Return paths, ports and keylog for a replay: those that were chosen, or a log of them.

    Temporary files stay until the stack is closed.
    """
    direct = chosen.paths, chosen.port, chosen.keylog
    if sum(map(_size, chosen.paths)) < FROM_BYTES:
        return direct
    if chosen.keylog:
        place = stack.enter_context(ScratchDirectory()) / "log"
    else:
        folder = cache_home() / FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        place = folder / _name(chosen)
        if _is_usable(place):
            notice(f"using the replay log of an earlier command: {place}")
            os.utime(place)
            return [str(place)], (), None
        _make_room(folder)
    command = [sys.executable, "-m", "kdissect", "replay", "load", *chosen.paths, "--out", str(place)]
    command += [word for port in chosen.port for word in ("--port", str(port))]
    command += ["--keylog", chosen.keylog] if chosen.keylog else []
    command += ["--quiet"] if chosen.quiet else []
    package = str(Path(__file__).parents[2])
    python_path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    code = exit_code_of(command, os.environ | {"PYTHONPATH": python_path})
    return ([str(place)], (), None) if code == 0 and _is_usable(place) else direct


def exit_code_of(command: Sequence[str], variables: Mapping[str, str]) -> int:
    """Run a command to its end. Return its exit code.

    Ctrl-C reaches this process only. Its end here asks the command to end, so that it removes its files.
    """
    with subprocess.Popen(command, env=variables, process_group=0) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(ENDING_S)
            raise
        finally:
            process.kill()


def _size(path: str) -> int:
    """Return the bytes of a capture; 0 for what is no file, such as a log."""
    with suppress(OSError):
        if os.path.isfile(path):
            return os.path.getsize(path)
    return 0


def _name(chosen: argparse.Namespace) -> str:
    """Return the name of the log of some captures, as they are now."""
    found = [(os.path.abspath(path), os.stat(path)) for path in chosen.paths]
    captures = [(path, each.st_size, each.st_mtime_ns) for path, each in found]
    text = json.dumps([FORMAT, captures, sorted(chosen.port)])
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=16).hexdigest()


def _is_usable(place: Path) -> bool:
    if not is_log(str(place)):
        return False
    with suppress(UserError):
        open_log(place)
        return True
    return False


def _make_room(folder: Path) -> None:
    """Remove logs that cannot be used any more, and the oldest, so that one more can be kept."""
    logs = sorted(folder.iterdir(), key=lambda log: log.stat().st_mtime, reverse=True)
    usable = [log for log in logs if _is_usable(log)]
    for log in logs:
        if log not in usable[: MOST_LOGS - 1] and is_log(str(log)):
            shutil.rmtree(log, ignore_errors=True)
