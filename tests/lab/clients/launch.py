"""Starts client programs, each in its own process, and reads back what they did.

In: a `Job`, the library that is to do it, and a folder. Out: a running `Client` with its log and, at the end,
its `ReadOutcome`. Java programs are compiled once against the jars of the release they speak for.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.lab.clients.job import Job, Outcome
from tests.lab.java_compiler import compiled
from tests.lab.maven import Release, classpath, jars
from tests.lab.process import SMALL_JVM, Child
from tests.lab.releases import CURRENT

_HERE = Path(__file__).parent
_TEMPLATES = _HERE.parent / "templates"
_PYTHON_PROGRAMS = {"librdkafka": "librdkafka", "kafka-python": "kafka_python", "aiokafka": "aio"}

_PROGRAMS = defaultdict(lambda: "LabClient", administer="LabAdmin")
_OLD_PROGRAMS = {"produce": "OldProducer", "consume": "OldConsumer"}


@dataclass(slots=True)
class Client:
    """One running client program."""

    library: str
    job: Job
    child: Child
    outcome_file: Path
    log_names_requests: bool = True

    @property
    def log(self) -> Path:
        return self.child.output

    def finish(self) -> Outcome:
        """Wait until it has done all its work, and read its counts."""
        self.child.wait()
        return self.outcome()

    def leave(self) -> Outcome:
        """Ask it to close in good order, and read its counts."""
        self.child.stop()
        return self.outcome()

    def said(self) -> Outcome | None:
        """Its counts, or None if it was killed before it could tell them."""
        return self.outcome() if self.outcome_file.exists() else None

    def outcome(self) -> Outcome:
        if not self.outcome_file.exists():
            raise RuntimeError(f"{self.job.client_id} left no counts:\n{self.child.tail()}")
        said = json.loads(self.outcome_file.read_text())
        counters = {name: Counter(said[name]) for name in ("records", "failed")}
        return Outcome(**{**said, **counters})


def start(library: str, job: Job, folder: Path, release: Release | None = None) -> Client:
    """Start `job` with `library`; Java needs the `release` whose client it is."""
    path = folder / f"{job.client_id}.json"
    job.write(path)
    outcome = path.with_suffix(".outcome")
    environment = dict(os.environ)
    if library == "java":
        assert release is not None
        command = _java_command(release, job, outcome)
    else:
        command = [sys.executable, "-m", f"tests.lab.clients.{_PYTHON_PROGRAMS[library]}", str(path)]
        environment["PYTHONPATH"] = str(_HERE.parents[2])
    child = Child(job.client_id, command, path.with_suffix(".log"), environment, patience=120)
    child.start()
    # The old Java clients do not say what they send.
    return Client(library, job, child, outcome, library != "java" or release == CURRENT)


def _java_command(release: Release, job: Job, outcome: Path) -> list[str]:
    modern = any(jars(release).glob("log4j-core-2*"))
    program = (_PROGRAMS if modern else _OLD_PROGRAMS)[job.role]
    words = {
        "client_id": job.client_id,
        "role": job.role,
        "bootstrap": job.bootstrap,
        "topics": ",".join(job.topics),
        "records": str(job.records),
        "per_second": str(job.per_second),
        "burst": str(job.burst),
        "value_bytes": str(job.value_bytes),
        "group": job.group,
        "release": release.version,
        "outcome": str(outcome),
        **{f"config:{name}": value for name, value in job.config.items()},
    }
    logging = (
        f"-Dlog4j2.configurationFile={_TEMPLATES / 'client-log4j2.xml'}"
        if modern
        else f"-Dlog4j.configuration=file:{_TEMPLATES / 'client-log4j.properties'}"
    )
    path = classpath(release, compiled(release, _HERE / "java" / f"{program}.java"))
    return ["java", *SMALL_JVM, logging, "-cp", path, program, *(f"{k}={v}" for k, v in words.items())]
