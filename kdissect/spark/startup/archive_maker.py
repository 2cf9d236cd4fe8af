"""The process that makes a class archive (see `class_data_sharing`).

It runs a command of the kind that the archive is for, over a capture of a few packets, and Java writes down
which classes that loads and which functions it links. Java's archive keeps no function of Scala, so classes
with such functions are rewritten (`function_jar`). Then a JVM that runs nothing loads, verifies and stores
all classes of the list. This takes some twenty seconds, at the lowest priority.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kdissect.background_program import LOWEST_PRIORITY, set_priority
from kdissect.spark.spark_settings import RunKind
from kdissect.spark.startup import linked_functions
from kdissect.spark.startup.class_data_sharing import ArchiveFiles
from kdissect.spark.startup.function_jar import write_function_jar
from kdissect.spark.startup.linked_functions import LinkedFunctions
from kdissect.startup_switch import STARTUP_VARIABLE

PATIENCE_SECONDS = 300  # for a command, and for a JVM
NAME = re.compile(r"[\w$/-]+(?= |$)")
"""The name at the start of a line of the list; other lines begin with @ or #."""

CAPTURE = Path(__file__).with_name("warmup.pcap")
QUERY = (
    "select e.api_name, p.topic, count(*) as calls, avg(e.latency_ns) "
    "from exchanges e left join partitions p on e.connection = p.connection and e.ordinal = p.ordinal "
    "where e.latency_ns >= 0 group by e.api_name, p.topic order by calls desc limit 10"
)
COMMANDS: Mapping[str, tuple[str, ...]] = {
    RunKind.RDD: ("analyze", "--quiet"),
    RunKind.SQL: ("sql", "--quiet", QUERY),
    RunKind.STREAM: ("watch", "--quiet", "--every", "1s", "--settle", "1s", "--until-idle", "1s"),
}
"""Commands of each kind, to which a folder of captures is added."""
JAVA_OPTIONS = "JDK_JAVA_OPTIONS"  # the variable that the program `java` reads

# Spark does all of the work, maps no archive, and ends in the ordinary way, so that Java completes its list.
SHORTCUTS = ("-class_data_sharing", "-local_scan", "-quick_exit")


class ClassRecording:
    """A folder with what Java writes of a run: a list of classes, and functions that were linked."""

    def __init__(self, folder: Path) -> None:
        self.classes, self.functions = folder / "classes", folder / "functions"
        self._captures = folder / "captures"
        self._temporary = folder / "temporary"
        for part in (self.functions, self._captures, self._temporary):
            part.mkdir(parents=True)
        shutil.copy(CAPTURE, self._captures)

    def fill(self, kind: str) -> None:
        """Run the command of a kind of run. Raise OSError or SubprocessError if it fails."""
        subprocess.run(
            [sys.executable, "-P", "-m", "kdissect", *COMMANDS[kind], str(self._captures)],
            env=self._environment(os.environ),
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=True,
        )

    def _environment(self, known: Mapping[str, str]) -> dict[str, str]:
        options = f"-XX:DumpLoadedClassList={self.classes}", f"{linked_functions.OPTION}={self.functions}"
        java = [known.get(JAVA_OPTIONS), *(f'"{option}"' for option in options)]
        shortcuts = [known.get(STARTUP_VARIABLE), *SHORTCUTS]
        return {
            **known,
            JAVA_OPTIONS: " ".join(filter(None, java)),
            STARTUP_VARIABLE: ",".join(filter(None, shortcuts)),
            # The user's own may be gone soon, since nobody awaits this.
            "TMPDIR": str(self._temporary),
        }


def make(order: Mapping[str, Any]) -> bool:
    """Make the archive that a ClassArchive orders. Return whether it was made."""
    files = ArchiveFiles(Path(order["cache"]), order["name"], order["has_functions"])
    jars = [Path(jar) for jar in order["jars"]]
    try:
        files.unseal()
        with recorded(files.archive.with_suffix(".recording"), order["kind"]) as recording:
            lines = recording.classes.read_text("utf-8", "replace").splitlines()
            linked = LinkedFunctions(recording.functions)
            for jar in files.own_jars:
                lines += write_function_jar(jars, listed_names(lines), jar, linked)
            recording.classes.write_text("".join(f"{line}\n" for line in lines))
            _store(order["java"], [*files.own_jars, *jars], recording.classes, files.archive)
        files.seal()
    except (OSError, subprocess.SubprocessError):
        files.fail()
        return False
    return True


@contextmanager
def recorded(folder: Path, kind: str) -> Iterator[ClassRecording]:
    """Yield the recording of a run, and remove its folder in the end."""
    shutil.rmtree(folder, ignore_errors=True)  # of a maker that was killed; only one runs
    try:
        recording = ClassRecording(folder)
        recording.fill(kind)
        yield recording
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def listed_names(lines: Sequence[str]) -> list[str]:
    """Return the names of the classes of a list of the JVM, such as java/lang/Object."""
    return [match[0] for line in lines if (match := NAME.match(line))]


def _store(java: Sequence[str], jars: Sequence[Path], classes: Path, archive: Path) -> None:
    """Store the listed classes by a JVM. Raise OSError or SubprocessError if it does not."""
    stored = archive.with_suffix(".part")
    command = [
        *java,
        "-Xshare:dump",
        f"-XX:SharedClassListFile={classes}",
        f"-XX:SharedArchiveFile={stored}",
        "-cp",
        os.pathsep.join(map(str, jars)),
    ]
    try:
        subprocess.run(command, capture_output=True, timeout=PATIENCE_SECONDS, check=True)
        stored.replace(archive)
    finally:
        stored.unlink(missing_ok=True)


if __name__ == "__main__":
    set_priority(LOWEST_PRIORITY)
    make(json.loads(sys.argv[1]))
