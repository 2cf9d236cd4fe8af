"""A capture in batches has the rows of the capture in one go, wherever it is cut."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.index.splits import Split
from kdissect.capture.inputs import open_inputs
from kdissect.streams.tls.keylog import KeyLog, keys_for
from kdissect.tables.build import dissect_batches
from kdissect.tables.dissection import NS_PER_S, AgeLimits, Dissection
from tests.helpers.in_batches import WANTED, in_batches, pieces_of, rows_in_order
from tests.helpers.tiers import spread, thorough_after
from tests.streams.test_hostile import wrecks_of, write

CAPTURES = Path(__file__).parents[2] / "captures"
CUTS = int(os.environ.get("KDISSECT_CUTS", "1"))  # random ways of cutting each capture


def splits_of(path: Path, bytes_of_split: int) -> tuple[tuple[Split, ...], KeyLog]:
    index = index_captures(open_inputs([str(path)], "").files, bytes_of_split, range_bytes=bytes_of_split)
    return index.splits, keys_for(None, index.files)


def same(tables: dict[str, pa.Table], others: dict[str, pa.Table]) -> None:
    for name, table in tables.items():
        assert others[name].num_rows == table.num_rows, name
        assert others[name].equals(table), name


def size_of(path: Path) -> int:
    return path.stat().st_size


@pytest.mark.parametrize(
    "path", spread(sorted(CAPTURES.glob("*.pcap*"), key=size_of), 6), ids=lambda path: path.stem
)
@pytest.mark.slow
def test_any_cut_leads_to_the_same_rows(path: Path) -> None:
    splits, keys = splits_of(path, max(4096, path.stat().st_size // 23))
    assert len(splits) > 5
    expected = rows_in_order(dissect_batches(pieces_of(splits), splits, keys, WANTED))
    assert expected["exchanges"].num_rows
    chance = random.Random(path.stem)
    every = range(1, len(splits))
    for cuts in [list(every), *(sorted(chance.sample(every, chance.randint(1, 4))) for _ in range(CUTS))]:
        same(expected, rows_in_order(in_batches(splits, cuts, keys)))


@pytest.mark.slow
@pytest.mark.parametrize("name", thorough_after(1, ["tls", "sasl"]))
def test_the_compiler_makes_no_difference(name: str) -> None:
    code = f"""
import random
from pathlib import Path
from kdissect.tables.build import dissect_batches
from tests.helpers.in_batches import WANTED, in_batches, pieces_of, rows_in_order
from tests.tables.test_dissection import same, splits_of
path = Path({str(CAPTURES)!r}) / "{name}.pcapng"
splits, keys = splits_of(path, path.stat().st_size // 9)
expected = rows_in_order(dissect_batches(pieces_of(splits), splits, keys, WANTED))
same(expected, rows_in_order(in_batches(splits, list(range(1, len(splits))), keys)))
assert expected["exchanges"].num_rows
"""
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=Path(__file__).parents[2],
        env=os.environ | {"KDISSECT_JIT": "0"},
    )


@pytest.mark.parametrize("seed", thorough_after(3, range(12)))
@pytest.mark.slow
def test_spoiled_captures_lead_to_the_same_rows(tmp_path: Path, seed: int) -> None:
    wrecks = [wrecks_of(25 * seed + number) for number in range(25)]
    write(tmp_path / "wrecks.pcap", wrecks, random.Random(seed))
    splits, keys = splits_of(tmp_path / "wrecks.pcap", (tmp_path / "wrecks.pcap").stat().st_size // 11)
    expected = rows_in_order(dissect_batches(pieces_of(splits), splits, keys, WANTED))
    same(expected, rows_in_order(in_batches(splits, list(range(1, len(splits))), keys)))


def test_connections_that_are_over_are_not_carried_on() -> None:
    """Connections end during the capture; the rows are the same, and the state does not grow with them."""
    splits, keys = splits_of(CAPTURES / "refusals.pcapng", 20_000)
    expected = rows_in_order(dissect_batches(pieces_of(splits), splits, keys, WANTED))
    sizes: list[int] = []
    quick = AgeLimits(idle_ns=1 << 62, closed_ns=NS_PER_S // 4)
    cuts = list(range(1, len(splits)))
    same(expected, rows_in_order(in_batches(splits, cuts, keys, quick, sizes)))
    all_kept: list[int] = []
    list(in_batches(splits, cuts, keys, sizes=all_kept))
    assert max(sizes) < max(all_kept)
    assert sizes[-1] < 4000  # every connection has ended


def test_idle_connections_are_given_up_and_counted() -> None:
    splits, keys = splits_of(CAPTURES / "steady.pcapng", 100_000)
    dissection = Dissection(splits[:2], keys, WANTED)
    pieces = pieces_of(splits[:2])
    list(dissection.feed(pieces))
    age_limits = AgeLimits(idle_ns=60 * NS_PER_S)
    soon_ns = max(part["last_time_ns"].to_numpy().max() for part in pieces)
    assert not dissection.aged(soon_ns, age_limits).idle
    aged = dissection.aged(soon_ns + 400 * NS_PER_S, age_limits)
    assert aged.rows.tolist() == list(range(dissection.connections))
    assert 0 < aged.idle <= len(aged.rows)
    ended = [batch["connections"] for batch in dissection.end(aged.rows) if "connections" in batch]
    assert sum(rows.num_rows for rows in ended) == dissection.connections
    assert not len(dissection.carried(aged.rows)["flows"]["identities"])
