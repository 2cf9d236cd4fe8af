"""The Dockerfile installs what the package needs, and leaves out what it does not."""

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

from kdissect.spark.startup.java import OLDEST

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "Dockerfile").read_text("utf-8")


def test_java_and_python_are_new_enough() -> None:
    java = re.search(r"openjdk-(\d+)-jre-headless", TEXT)
    python = re.search(r"^FROM python:3\.(\d+)-", TEXT, re.MULTILINE)
    oldest = re.search(
        r">=3\.(\d+)", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    )
    assert java
    assert python
    assert oldest
    assert int(java[1]) >= OLDEST
    assert int(python[1]) >= int(oldest[1])


def test_what_the_build_reads_is_not_left_out() -> None:
    left_out = (ROOT / ".dockerignore").read_text("utf-8").split()
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = [*wheel["packages"], *wheel["shared-data"], "README.md", "LICENSE", "pyproject.toml"]
    assert not [name for name in needed if any(name == one or name.startswith(f"{one}/") for one in left_out)]


def test_the_command_is_the_entry_point() -> None:
    assert 'ENTRYPOINT ["kdissect"]' in TEXT


def test_what_is_prepared_is_a_program_and_a_capture_of_the_package() -> None:
    (module,) = re.findall(r"python -m (\S+)", TEXT)
    (capture,) = re.findall(r"__path__\)'\)/(\S+)\"", TEXT)
    assert find_spec(module) is not None
    assert (ROOT / "kdissect" / capture).is_file()
