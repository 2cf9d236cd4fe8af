"""A target that runs on this machine without Kafka: the broker of the benchmarks, which takes everything and
does nothing."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.helpers.command import environment


@contextmanager
def null_target(host: str = "127.0.0.1") -> Iterator[str]:
    """Run the broker at an address of this machine; yield it with its port."""
    command = [sys.executable, "-m", "tests.bench.null_broker", host]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as broker:
        try:
            assert broker.stdout is not None
            yield f"{host}:{int(broker.stdout.readline())}"
            broker.communicate(timeout=20)
        finally:
            broker.kill()
