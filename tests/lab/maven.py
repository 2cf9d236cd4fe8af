"""Kafka's jars, by release.

In: a `Release` (a name and the Maven coordinates it is made of). Out: a folder of jars in the user's cache.
Rule: a release is resolved once, by the machine's own `mvn`, so whatever repository or mirror that client is
configured for is used. The folder is renamed into place only when complete, so readers need no lock.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape


class LabUnavailable(RuntimeError):
    """This machine lacks something the lab needs; the message says what."""


@dataclass(frozen=True, slots=True)
class Release:
    """One set of jars: `artifacts` are `group:artifact:version`, `excluded` are `group:artifact`."""

    name: str
    artifacts: tuple[str, ...]
    excluded: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        return self.name.removeprefix("kafka-")


def cache_folder() -> Path:
    """Return the folder in which jars and compiled client programs live between runs."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "kdissect-lab"


def need(*programs: str) -> None:
    """Raise `LabUnavailable` naming every program of `programs` that is not on the path."""
    absent = [program for program in programs if shutil.which(program) is None]
    if absent:
        raise LabUnavailable(f"not installed: {', '.join(absent)}")


def jars(release: Release) -> Path:
    """Return the folder with every jar of `release`, resolving it first if this machine has not yet."""
    pom = _pom(release)
    digest = hashlib.sha256(pom.encode()).hexdigest()[:12]
    folder = cache_folder() / "jars" / f"{release.name}-{digest}"
    if folder.is_dir():
        return folder
    need("java", "mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f".{release.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _resolve(pom, folder)
    return folder


def classpath(release: Release, *more: Path) -> str:
    """Return a Java class path: `more` first, then every jar of `release`."""
    return os.pathsep.join([*(str(path) for path in more), str(jars(release) / "*")])


def _resolve(pom: str, folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".resolving-") as scratch:
        Path(scratch, "pom.xml").write_text(pom)
        command = [
            "mvn",
            "-B",
            "-q",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=jars",
        ]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr)
            raise LabUnavailable(f"mvn could not resolve {folder.name}: {reason.strip()}")
        os.rename(Path(scratch, "jars"), folder)


def _pom(release: Release) -> str:
    exclusions = "".join(
        f"<exclusion>{_element('groupId', group)}{_element('artifactId', artifact)}</exclusion>"
        for group, artifact in (name.split(":") for name in release.excluded)
    )
    dependencies = "".join(
        f"<dependency>{_element('groupId', group)}{_element('artifactId', artifact)}"
        f"{_element('version', version)}"
        f"<exclusions>{exclusions}</exclusions></dependency>\n"
        for group, artifact, version in (name.split(":") for name in release.artifacts)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>\n'
        "<groupId>lab</groupId><artifactId>jars</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def _element(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text)}</{tag}>"
