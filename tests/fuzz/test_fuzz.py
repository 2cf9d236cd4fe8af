"""What fuzzing found stays mended, and a little of it is done every time: the same cases each time."""

from pathlib import Path
from random import Random

import pytest

from tests.fuzz import seeds
from tests.fuzz.__main__ import CORPORA
from tests.fuzz.case import Case, from_bytes, to_bytes
from tests.fuzz.damage import damaged
from tests.fuzz.targets import TARGETS

CASES = sorted(Path(__file__).with_name("cases").glob("*.bin"))


@pytest.mark.parametrize("path", CASES, ids=[path.stem for path in CASES])
def test_what_was_found(path: Path) -> None:
    TARGETS[path.name.partition("-")[0]](from_bytes(path.read_bytes()))


SLOW = {"capture"}  # targets that dissect whole captures


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in sorted(TARGETS)],
)
def test_a_little(name: str) -> None:
    rng = Random(name)
    cases = CORPORA[name]() if name in CORPORA else list(seeds.invented(rng))
    for _ in range(150):
        case, other = rng.choice(cases), rng.choice(cases)
        TARGETS[name](case._replace(data=damaged(rng, case.data, other.data)))


def test_cases_survive_their_files() -> None:
    case = Case(-1, 32767, True, b"bytes")
    assert from_bytes(to_bytes(case)) == case
