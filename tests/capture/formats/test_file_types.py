"""Files that are not captures, recognised by their first bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from kdissect.capture.formats.decompress import DECOMPRESSORS
from kdissect.capture.formats.file_types import (
    BEGINNINGS,
    InputError,
    check_paths,
)
from kdissect.capture.formats.pcap import MAGICS
from kdissect.capture.formats.pcapng import SECTION_MAGIC
from tests.helpers.command import environment


def test_beginnings_are_those_that_the_readers_know(tmp_path: Path) -> None:
    known = {*MAGICS, SECTION_MAGIC}
    assert known <= set(BEGINNINGS)
    assert all(any(magic.startswith(begin) for begin in BEGINNINGS) for magic in DECOMPRESSORS)
    path = tmp_path / "some.pcap"
    for begin in BEGINNINGS:
        path.write_bytes(begin + bytes(30))
        check_paths([str(path), "-", str(tmp_path)])
    for contents, words in ((b"", "is empty"), (b"PK\x03\x04" + bytes(9), "a zip archive")):
        path.write_bytes(contents)
        with pytest.raises(InputError, match=words):
            check_paths([str(path)])


def test_a_glance_at_paths_loads_nothing_that_takes_time() -> None:
    loaded = (
        "import sys, kdissect.capture.formats.file_types; print({'numpy', 'numba', 'pyarrow'} & "
        "set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", loaded], capture_output=True, env=environment(), check=True, text=True
    )
    assert done.stdout == "set()\n"
