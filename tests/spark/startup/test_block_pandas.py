"""pandas is hidden from a process, and comes back."""

import subprocess
import sys

PROGRAM = """
import sys
from kdissect.spark.startup.block_pandas import allow_pandas, block_pandas
block_pandas(), block_pandas()
import pyarrow, pyarrow.parquet
assert "pandas" not in sys.modules
try:
    import pandas
except ModuleNotFoundError as absent:
    assert absent.name == "pandas"
else:
    raise AssertionError("pandas was imported")
allow_pandas(), allow_pandas()
import importlib.util
print(importlib.util.find_spec("pandas") is not None)
"""


def test_pandas_is_absent_until_it_is_allowed_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.strip() in {"True", "False"}  # whether this environment has pandas at all


def test_the_answer_is_that_of_the_environment() -> None:
    found = "import importlib.util; print(importlib.util.find_spec('pandas') is not None)"
    plain = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    blocked = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert blocked.stdout == plain.stdout
