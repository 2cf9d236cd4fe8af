"""`spark.sql_workers` ends the daemons of Spark SQL, and no others."""

import os
import signal
import subprocess
import sys

from kdissect.spark.sql_workers import STEPS, end_sql_workers


def test_only_daemons_of_these_steps_end() -> None:
    def child(*words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", *words])

    ended = [child("pyspark.daemon", step.decode()) for step in STEPS]
    left = [child("pyspark.daemon", "pyspark.worker"), child(STEPS[0].decode())]
    try:
        end_sql_workers(os.getpid())
        assert [process.wait(30) for process in ended] == [-signal.SIGTERM] * len(STEPS)
        assert [process.poll() for process in left] == [None, None]
    finally:
        for process in left:
            process.kill()
            process.wait()
    end_sql_workers(left[0].pid)  # a JVM that has ended has none
