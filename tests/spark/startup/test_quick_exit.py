"""A process that ends at once: what others notice of its end is the same."""

import subprocess
import sys

import pytest

from kdissect.startup_switch import STARTUP_VARIABLE
from tests.helpers.command import environment

ENDING = """
import atexit, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from kdissect.spark.startup.quick_exit import quick_exit

class Kept:
    def __del__(self):
        print("freed")

kept = Kept()
atexit.register(print, "handler")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
ThreadPoolExecutor(1).submit(lambda: (time.sleep(0.1), print("pool")))
if "traced" in sys.argv:
    sys.settrace(lambda *_: None)
quick_exit(3)
print("slow")
sys.exit(3)
"""


@pytest.mark.parametrize(
    ("switch", "argument", "output"),
    [
        ("", "", ["pool", "thread", "handler"]),
        ("-quick_exit", "", ["slow", "pool", "thread", "handler", "freed"]),
        ("", "traced", ["slow", "pool", "thread", "handler"]),
    ],
)
def test_threads_handlers_and_streams_end_as_usual(switch: str, argument: str, output: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", ENDING, argument],
        capture_output=True,
        text=True,
        env=environment() | {STARTUP_VARIABLE: switch},
        check=False,
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (3, output, "")


def test_output_that_cannot_be_written_is_left_to_python() -> None:
    program = "import sys; from kdissect.spark.startup.quick_exit import quick_exit; print(1); quick_exit(0)"
    with open("/dev/full", "w") as full:  # noqa: PTH123 - a device
        done = subprocess.run(
            [sys.executable, "-P", "-c", program],
            stdout=full,
            stderr=subprocess.PIPE,
            env={name: value for name, value in environment().items() if name != "PYTHONUNBUFFERED"},
            check=False,
        )
    assert done.returncode == 120
    assert b"No space left" in done.stderr
