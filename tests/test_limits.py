"""Values that KDISSECT_LIMITS may have, and their effect."""

import subprocess
import sys

import pytest

from kdissect.limits import (
    LIMITS,
    LIMITS_VARIABLE,
    LimitsError,
    read,
)
from tests.helpers.command import environment, kdissect


def test_nothing_said_is_as_usual() -> None:
    assert read(" ") == {name: limit.usual for name, limit in LIMITS.items()}


def test_what_is_said_is_set() -> None:
    assert read("frame=512m, ahead=1G attempts=7") == read("") | {
        "frame": 512 << 20,
        "ahead": 1 << 30,
        "attempts": 7,
    }


@pytest.mark.parametrize(
    "text", ["frame", "frame=0", "frame=-1", "frame=2g", "frames=1m", "frame=1m;ahead=2m", "frame=1.5m"]
)
def test_what_is_wrong_is_refused(text: str) -> None:
    with pytest.raises(LimitsError):
        read(text)


def test_the_command_says_so_in_one_sentence() -> None:
    done = kdissect("dump", "captures/steady.pcapng", KDISSECT_LIMITS="frame=all")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "kdissect: KDISSECT_LIMITS: 'frame=all' is not one of frame=N, ahead=N, held=N, "
        "decompressed=N, elements=N, attempts=N\n"
    )


def test_kernels_know_them() -> None:
    program = (
        "from kdissect.jit.kernel_cache import kernel_home; "
        "from kdissect.streams import reassembly, request_header; "
        "from kdissect.protocol.columnar import vm_rows; "
        "print(request_header.MAX_FRAME, reassembly.MAX_AHEAD_BYTES, vm_rows.MOST_ROWS, kernel_home())"
    )
    said = [
        subprocess.run(
            [sys.executable, "-P", "-c", program],
            env=environment(KDISSECT_JIT="0", **{LIMITS_VARIABLE: limits}),
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for limits in ("", "frame=1m ahead=2m elements=3m")
    ]
    assert said[1][:3] == [str(1 << 20), str(2 << 20), str(3 << 20)]
    assert said[0][:3] != said[1][:3]
    assert said[0][3] != said[1][3]
