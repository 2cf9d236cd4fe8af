"""On real HDFS and YARN, one node each on this machine: the same tables as from a local file. `python -m
tests.hadoop`.

Needs Java's compiler, Maven (the first time about 60 MB), the package hdfs-native, and one to five minutes:
too much for every run of the tests. Tells what it compares; the exit code is 1 if something differs.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from kdissect.capture.storage import file_system
from kdissect.spark.startup.java import find_java
from kdissect.spark.startup.jvm import spark_jars
from kdissect.tables.schemas import TABLES

HERE = Path(__file__).parent
CAPTURE = HERE.parents[1] / "captures" / "broker-restart.pcapng"
START_SECONDS = 300


def main() -> int:
    """Run it all."""
    with tempfile.TemporaryDirectory(prefix="hadoop-") as name:
        folder = Path(name)
        with (folder / "log").open("wb") as log:
            hadoop = subprocess.Popen(
                command(folder), stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=folder
            )
        try:
            wait_for(folder, hadoop)
            return compared(folder)
        finally:
            hadoop.kill()
            hadoop.wait()


def command(folder: Path) -> list[str]:
    """Return the command line of Hadoop's daemons, all in one process."""
    jars = folder / "jars"
    get = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    subprocess.run([*get, f"-DoutputDirectory={jars}"], check=True)
    options = ["-Xmx600m", "-XX:+UseSerialGC", "--add-opens=java.base/java.lang=ALL-UNNAMED"]
    path = os.pathsep.join([f"{jars}/*", f"{spark_jars()[0].parent}/*"])
    return [str(find_java().program), *options, "-cp", path, str(HERE / "MiniHadoop.java"), str(folder)]


def wait_for(folder: Path, hadoop: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not (folder / "core-site.xml").exists():
        if hadoop.poll() is not None or time.monotonic() > deadline:
            raise SystemExit((folder / "log").read_text()[-3000:])
        time.sleep(0.2)


def compared(folder: Path) -> int:
    confs = folder / "conf"
    confs.mkdir()
    (confs / "spark-defaults.conf").write_text(
        "spark.executor.instances 2\nspark.executor.memory 512m\nspark.executor.memoryOverhead 1g\n"
        "spark.yarn.am.memory 256m\nspark.driver.host 127.0.0.1\nspark.driver.bindAddress 127.0.0.1\n"
        f"spark.pyspark.python {sys.executable}\nspark.yarn.jars local:{spark_jars()[0].parent}/*\n"
        "spark.executorEnv.KDISSECT_JIT 0\n"
    )
    os.environ.update(HADOOP_CONF_DIR=str(folder), SPARK_CONF_DIR=str(confs))
    system, _ = file_system("hdfs:///")
    for name in ("one", "two"):
        with system.open_output_stream(f"/captures/{name}.pcapng") as file:
            file.write(CAPTURE.read_bytes())
    export("/local", str(CAPTURE), "--master", "local[2]")
    export("/far", "hdfs:///captures/o*.pcapng", "--master", "yarn")
    differ = [name for name in TABLES if not rows(system, "/local", name).equals(rows(system, "/far", name))]
    print(f"{len(TABLES) - len(differ)} of {len(TABLES)} tables are the same by YARN from HDFS to HDFS")
    return 1 if differ else 0


def export(out: str, *arguments: str) -> None:
    command = [sys.executable, "-m", "kdissect", "export", "--table", "all", "--out", f"hdfs://{out}"]
    began = time.monotonic()
    subprocess.run([*command, *arguments], check=True)
    print(f"{' '.join(arguments)}: {time.monotonic() - began:.0f} s", flush=True)


def rows(system: object, folder: str, name: str) -> pa.Table:
    table = parquet.read_table(f"{folder}/{name}", filesystem=system)
    kept = table.drop_columns([column for column in ("capture_file",) if column in table.column_names])
    return kept.sort_by([(column, "ascending") for column in kept.column_names])


if __name__ == "__main__":
    sys.exit(main())
