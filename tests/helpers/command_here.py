"""The command in the process of the tests, for what it reads, writes and refuses.

That takes a tenth of the time of a process of its own. Tests of how the command starts and ends, and of what
it leaves behind, need that process (`command.kdissect`).
"""

import io
import logging
import signal
import subprocess
import tempfile
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Self

import pytest

from kdissect.cli import context
from kdissect.cli.main import main
from kdissect.files import ScratchDirectory
from kdissect.spark.session import Engine
from kdissect.startup_switch import STARTUP_VARIABLE

STARTUP = "+in_process,-block_unused,-uncompiled_first_run"
"""Figures are made without Spark, and nothing is switched off that other tests of this process need."""


def kdissect_here(
    *arguments: str | Path, engine: Engine | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, on an engine that goes on afterwards if one is given."""
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    disabled, on_terminate = logging.root.manager.disable, signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        for name, value in ({STARTUP_VARIABLE: STARTUP} | more).items():
            patch.setenv(name, value)
        patch.setattr(tempfile, "tempdir", None)  # TMPDIR is asked for once only
        if engine is not None:
            patch.setattr(context, "runs_in_process", lambda *_: False)
            patch.setattr(Engine, "start", lambda _settings: SharedEngine(engine))
        try:
            code: Any = main([*map(str, arguments)])
        except SystemExit as ended:
            code = ended.code
        finally:
            logging.disable(disabled)
            signal.signal(signal.SIGTERM, on_terminate)
    shown, told = (stream.buffer.getvalue().decode() for stream in (output, errors))
    return subprocess.CompletedProcess(arguments, int(code), shown, told)


class SharedEngine:
    """An engine as one of several runs sees it: its end is that of the run."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._scratch, self.afterwards = engine, ScratchDirectory(), ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.end()
        self.afterwards.close()

    @property
    def temporary(self) -> Path:
        """A directory of the run."""
        return self._scratch.path

    def rest(self) -> None:
        """Do nothing: other runs follow."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)
