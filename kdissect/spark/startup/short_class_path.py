"""The jars of Spark that a local run can use.

A run that plans no queries does without Spark SQL, its file formats and its compilers, too.

Java opens every jar of its class path while it looks for the settings of its parts, which takes 0.1 s and
20 MB for the 280 jars of PySpark. A local run never loads the classes of a third of them: the parts of Spark
for Kubernetes, YARN, Hive, graphs and machine learning, what only those need, and native code for other
systems.
"""

import os
import re
from collections.abc import Sequence
from pathlib import Path

UNUSED = (
    *("kubernetes-", "volcano-", "vertx-", "zjsonpatch-", "spark-kubernetes_", "spark-yarn_"),
    *("hive-", "spark-hive", "datanucleus-", "derby", "jdo-api-", "javax.jdo-", "HikariCP-", "libfb303-"),
    *("libthrift-", "zookeeper-", "curator-"),
    *("spark-mllib", "spark-graphx_", "breeze", "spire", "arpack", "lapack-", "blas-", "JTransforms-"),
    *("JLargeArrays-", "algebra_", "cats-"),
)
"""How the names of jars begin that a local run does not use."""

SQL_ONLY = (
    *("spark-sql", "spark-catalyst_", "spark-connect_", "spark-pipelines_", "spark-repl_"),
    *("spark-streaming_", "spark-variant_", "spark-sketch_", "antlr", "ST4-", "icu4j-", "janino-"),
    *("commons-compiler-", "arrow-", "flatbuffers-", "parquet-", "orc-", "avro-ipc-", "avro-mapred-"),
    *("aircompressor-", "univocity-", "xmlschema-", "super-csv-", "opencsv-", "joda-time-"),
    *("threeten-", "jts-", "datasketches-", "jersey-", "hk2-", "jaxb-", "javassist-", "jline-"),
    *("rocksdbjni-", "jjwt-", "tink-", "scala-compiler-"),
)
"""How the names of further jars begin, which only queries use."""

MOST_USED = (
    *("spark-core_", "spark-common-", "spark-config_", "spark-network-", "spark-sql", "spark-catalyst_"),
    *("scala-library-", "hadoop-client-", "netty-", "jackson-", "json4s-", "log4j-"),
)
"""How the names of the jars begin that have most of the classes that a run loads.

Java searches the class path for each class from its start.
"""

SYSTEMS = {"linux": "Linux", "osx": "Darwin", "windows": "Windows"}
"""Names of systems in jars with native code, and in Python."""


def local_jars(jars: Sequence[Path], queries: bool) -> list[Path]:
    """Return the jars that a local run on this system can use, those of most classes first.

    `queries` says whether it plans any.
    """
    left_out = UNUSED if queries else UNUSED + SQL_ONLY
    kept = [jar for jar in jars if not jar.name.startswith(left_out) and not _is_foreign(jar.name)]
    return sorted(kept, key=lambda jar: not jar.name.startswith(MOST_USED))


def _is_foreign(name: str) -> bool:
    native = re.search(r"-(linux|osx|windows)-\w+\.jar$", name)
    return native is not None and SYSTEMS[native[1]] != os.uname().sysname
