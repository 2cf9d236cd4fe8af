"""However a capture is cut, packed or spread over tasks, its tables stay the same."""

import gzip
import io
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from tests.spark.conftest import CAPTURES, PLACES, Tables, in_order

SplitsOf = Callable[..., tuple[Split, ...]]
Dissected = Callable[..., Tables]
Whole = Callable[[Path], Tables]

HARDEST = [
    CAPTURES / "broker-restart.pcapng",
    CAPTURES / "old-broker.pcap",
]  # what is cut here has most to say

with_editcap = pytest.mark.skipif(not shutil.which("editcap"), reason="editcap (Wireshark) is not installed")


def assert_same(found: Tables, expected: Tables, without: tuple[str, ...] = ()) -> None:
    assert expected["exchanges"].num_rows > 0
    for name, table in expected.items():
        assert in_order(found[name], without).equals(in_order(table, without)), name


@pytest.mark.slow
def test_any_number_of_splits_partitions_and_batches(
    capture: Path, splits_of: SplitsOf, dissected: Dissected, whole: Whole
) -> None:
    cut = splits_of(capture, split_bytes=capture.stat().st_size // 6)
    assert len(cut) > 3
    assert_same(dissected(cut, 2, 100), whole(capture))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "partitions", "rows"), [(24, 3, 64), (2, 7, 16)])
@pytest.mark.parametrize("capture", HARDEST, ids=lambda path: path.name, indirect=True)
def test_many_splits_partitions_and_batches(
    capture: Path,
    splits_of: SplitsOf,
    dissected: Dissected,
    whole: Whole,
    count: int,
    partitions: int,
    rows: int,
) -> None:
    cut = splits_of(capture, split_bytes=capture.stat().st_size // count + 1)
    assert len(cut) == count
    assert_same(dissected(cut, partitions, rows), whole(capture))


@pytest.mark.slow
def test_gzip_and_standard_input(
    capture: Path, tmp_path: Path, splits_of: SplitsOf, dissected: Dissected, whole: Whole
) -> None:
    packed = gzip.compress(capture.read_bytes())
    (tmp_path / "packed").write_bytes(packed)
    assert_same(dissected(splits_of(tmp_path / "packed")), whole(capture), without=("capture_file",))
    streamed = open_inputs(["-"], str(tmp_path), stdin=io.BytesIO(packed)).files
    assert_same(dissected(index_captures(streamed).splits), whole(capture), without=("capture_file",))


@pytest.mark.slow
@with_editcap
@pytest.mark.parametrize("kind", ["nsecpcap", "pcapng"])
def test_converted(
    capture: Path, tmp_path: Path, splits_of: SplitsOf, dissected: Dissected, whole: Whole, kind: str
) -> None:
    converted = tmp_path / "converted"
    subprocess.run(
        ["editcap", "--discard-all-secrets", "-F", kind, capture, converted], check=True, capture_output=True
    )
    assert_same(dissected(splits_of(converted)), whole(capture), without=("capture_file",))


@pytest.mark.slow
@with_editcap
def test_ten_files(
    capture: Path, tmp_path: Path, splits_of: SplitsOf, dissected: Dissected, whole: Whole
) -> None:
    if capture.name == "clock-step.pcapng":
        pytest.skip("files are read in the order of their times, which go back in this capture")
    each = -(-sum(split.packets for split in splits_of(capture)) // 10)
    parts = tmp_path / "parts"
    parts.mkdir()
    command = [
        "editcap",
        "--discard-all-secrets",
        "-F",
        "nsecpcap",
        "-c",
        str(each),
        capture,
        parts / "part.pcap",
    ]
    subprocess.run(command, check=True, capture_output=True)
    cut = splits_of(parts)
    assert len(cut) == 10
    assert_same(dissected(cut, 3), whole(capture), without=PLACES)
