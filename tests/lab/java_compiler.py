"""Java programs of these tests, compiled against the jars of a release.

In: a source file and a `Release`. Out: a folder of classes in the user's cache. Rule: the compiler is ECJ, a
jar from Maven like the others, so a Java runtime without a compiler (a JRE) is enough. A program is compiled
once for a release and a content of its source.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from tests.lab.maven import Release, cache_folder, jars

_COMPILER = Release("ecj-3.38.0", ("org.eclipse.jdt:ecj:3.38.0",))


class CompilationError(Exception):
    """A Java program does not fit the jars of a release; the message has the compiler's words."""


def compiled(release: Release, source: Path) -> Path:
    """Return the folder with the classes of `source`, compiled against `release` unless the cache has them.

    Raise `LabUnavailable` if Java or Maven is missing, and `CompilationError` if the source does not compile.
    """
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    target = cache_folder() / "classes" / f"{source.stem}-{release.name}-{digest}"
    if not target.is_dir():
        _compile(release, source, target)
    return target


def _compile(release: Release, source: Path, target: Path) -> None:
    compiler = jars(_COMPILER) / "*"
    libraries = os.pathsep.join(str(jar) for jar in sorted(jars(release).glob("*.jar")))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        classes = Path(scratch, "classes")
        main = ["java", "-cp", str(compiler), "org.eclipse.jdt.internal.compiler.batch.Main"]
        command = [*main, "-17", "-nowarn", "-d", str(classes), "-cp", libraries, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilationError(f"{source.name} does not compile against {release.name}:\n{done.stderr}")
        if not target.is_dir():  # another process may have been faster
            os.rename(classes, target)
