"""The profile: what a sample is called, and that the page adds up."""

import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.bench import profile, sampling
from tests.bench.sampling import Sampled, Seconds

SMALL = Path(__file__).parents[1] / "captures" / "rebalances.pcapng"


def seconds_by(**stages: float) -> Seconds:
    found: Seconds = defaultdict(float)
    for stage, seconds in stages.items():
        found[Sampled(stage, f"{stage}.work", "np.add(a, b)", "NumPy")] = seconds
    return found


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("np.add.at(sums, of, values)", ("np", "add", "at")),
        ("self._codec.compress(sample)", ("self", "_codec", "compress")),
        ("columns['x'].take(rows)", ("columns", "take")),
        ("walk( table, entries", ("walk",)),
        ("(a + b).any()", ()),
        ("", ()),
    ],
)
def test_the_names_of_a_call(call: str, names: tuple[str, ...]) -> None:
    assert sampling._names(call) == names


def test_the_time_of_work_is_counted_in_full() -> None:
    began = time.process_time()
    seconds, total = sampling.sampled(lambda: sum(range(3_000_000)))
    assert total == 4_499_998_500_000
    assert 0 < sum(seconds.values()) <= time.process_time() - began


def test_the_kind_is_that_of_the_object_that_is_called() -> None:
    kinds = {}

    def look(name: str, _value: object) -> None:
        import sys

        kinds[name] = sampling._kind_of(f"{name}.array()", sys._getframe(1))

    array, column, text = np.zeros(1), pa.array([1]), "x"
    for name, value in (("array", array), ("column", column), ("text", text), ("np", np), ("pa", pa)):
        look(name, value)
    assert kinds == {"array": "NumPy", "column": "Arrow", "text": "Python", "np": "NumPy", "pa": "Arrow"}


def test_a_capture_is_profiled_by_stage() -> None:
    found = profile.profile(SMALL, 1)
    assert found.exchanges > 100
    text = "\n".join(profile.page(found, "x.pcap", None))
    assert "| stage | compiled loops | NumPy | Arrow | Python | all |" in text


def test_what_is_beyond_the_stages_is_named() -> None:
    found = profile.Profile(seconds_by(figures=1.0, columns=3.0), exchanges=1_000_000, runs=2)
    text = "\n".join(profile.page(found, "x.pcap", (9.0, 4.0)))
    assert "| columns | 0 | 1,500 | 0 | 0 | 1,500 |\n| figures | 0 | 500 | 0 | 0 | 500 |" in text
    assert "takes 9,000. Of these, 4,000 are the" in text
    assert "2,000 the stages above" in text
    assert "\n3,000 Spark, the shuffle, and the driver." in text
    assert "| columns.work: `np.add(a, b)` | columns | NumPy | 1,500 |" in text
