"""The Python processes with which Spark SQL finds, makes and plans a source that is written in Python.

Each of these steps has a daemon of its own with a worker, and keeps both for the life of the JVM. A stream
takes the steps once, when it begins: then 220 MiB wait for nothing.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

DAEMON = b"pyspark.daemon"
STEPS = (
    b"pyspark.sql.worker.lookup_data_sources",
    b"pyspark.sql.worker.create_data_source",
    b"pyspark.sql.worker.plan_data_source_read",
)


def end_sql_workers(java: int) -> None:
    """End the daemons of these steps below a JVM, and their workers with them, where there is a /proc."""
    for children in Path(f"/proc/{java}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                if DAEMON in words and any(step in words for step in STEPS):
                    os.kill(child, signal.SIGTERM)
