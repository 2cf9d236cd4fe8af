"""Old names: `kdissect.tables(…)` still loads tables, and says what it is called now."""

import subprocess
import sys

import pytest

ASK = """
import warnings
{before}
import kdissect
import kdissect.spark.notebook as notebook
notebook.load_tables = lambda spark, path, **options: (spark, path, options)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(kdissect.tables("session", "a.pcap", topic="orders"), [str(one.message) for one in told])
"""


@pytest.mark.parametrize("before", ["", "import kdissect.tables", "from kdissect import load_tables"])
def test_the_old_name_loads_tables_whatever_was_imported_before(before: str) -> None:
    command = [sys.executable, "-c", ASK.format(before=before)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    assert said == (
        "('session', 'a.pcap', {'topic': 'orders'}) ['kdissect.tables() is now kdissect.load_tables()']"
    )
