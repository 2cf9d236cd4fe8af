"""Find a Java that Spark can run on (version 17 or newer), if possible without starting it.

`JAVA_HOME` comes first, then `java` on the PATH, then the places where systems install Java. The first one
that is new enough is taken. The file `release` in the home of a Java states its version; a Java without that
file is started for it.
"""

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kdissect.errors import UserError
from kdissect.text import readable

OLDEST = 17  # https://spark.apache.org/docs/latest/: Spark 4 runs on Java 17 and newer

INSTALLED = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)

ADVICE = (
    f"install Java {OLDEST} or newer (Debian and Ubuntu: apt install openjdk-{OLDEST}-jre-headless; "
    f"Fedora: dnf install java-latest-openjdk-headless; macOS: brew install openjdk) or set JAVA_HOME"
)


class JavaMissingError(UserError):
    """There is no usable Java; the message is one sentence."""


class NamelessUserError(UserError):
    """The user of this process has no name, which Spark's login asks for; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime: its program, and its version in its own words (such as 17.0.15, or 1.8.0_412)."""

    program: Path
    version: str

    @property
    def feature(self) -> int:
        """The feature release: 17 of 17.0.15, 8 of 1.8.0_412, 0 if the version is unknown."""
        numbers = [int(number) for number in re.findall(r"\d+", self.version)]
        if numbers[:1] == [1] and len(numbers) > 1:  # up to Java 8 (JEP 223)
            return numbers[1]
        return numbers[0] if numbers else 0


def find_java(environment: Mapping[str, str] = os.environ, installed: Sequence[str] = INSTALLED) -> Java:
    """Return the first Java that is new enough. Raise JavaMissingError if there is none."""
    seen = []
    for program in _programs(environment, installed):
        java = Java(program, release_file_version(program) or printed_version(program))
        if java.feature >= OLDEST:
            return java
        seen.append(java)
    if seen:
        raise JavaMissingError(
            f"Java {seen[0].version or 'of unknown version'} ({seen[0].program}) is too old for "
            f"Spark: {ADVICE}"
        )
    raise JavaMissingError(f"Java was not found, and Spark needs it: {ADVICE}")


def check_user_name(user_id: int) -> None:
    """Raise NamelessUserError if a user has no name, as under `docker run --user 1234`."""
    try:
        pwd.getpwuid(user_id)
    except KeyError:
        raise NamelessUserError(
            f"user id {user_id} has no name on this machine, and Spark asks for it: run as a user of "
            "/etc/passwd (in a container: docker run -v /etc/passwd:/etc/passwd:ro)"
        ) from None


def check_temporary_directory(path: str) -> None:
    """Raise UserError if Spark cannot keep its files in a directory, as it takes its name for another."""
    if "," in path:
        raise UserError(f"Spark would divide {path} at the comma: set TMPDIR to another directory")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UserError(f"Java cannot open {readable(path)}, whose name is not UTF-8: set TMPDIR") from None


def _programs(environment: Mapping[str, str], installed: Sequence[str]) -> Iterator[Path]:
    """Return the Java programs of this machine, the preferred one first."""
    homes = [Path(home) for home in [environment.get("JAVA_HOME", "")] if home]
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    places = [home / "bin" / "java" for home in homes]
    places += [Path(on_path)] if on_path else []
    for pattern in installed:
        root, _, rest = pattern.partition("*")
        places += sorted((home / "bin" / "java" for home in Path(root).glob("*" + rest)), reverse=True)
    return (place for place in places if os.access(place, os.X_OK))


def release_file_version(program: Path) -> str:
    """Return the version in the `release` file of the home of `program`; empty if there is none."""
    try:
        text = (program.resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    return match[1] if match else ""


def printed_version(program: Path) -> str:
    """Return the version that `program` prints; empty if it does not run."""
    try:
        done = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    match = re.search(r'version "([^"]+)"', done.stderr)
    return match[1] if match else ""
