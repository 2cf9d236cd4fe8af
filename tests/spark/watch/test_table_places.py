"""Files of a batch get their names before it counts, and go if it never does."""

from pathlib import Path

import pytest

from kdissect.capture.storage_folder import open_folder
from kdissect.spark.watch.table_places import FarTables, TablePlace, in_parallel, open_tables

ROWS = "exchanges/hour=2026-01-01-00"


@pytest.fixture(params=["near", "far"])
def out(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "near":
        return str(tmp_path / "out")
    return f"s3://captures/{tmp_path.name}/out{request.getfixturevalue('s3')}"


def publish(place: TablePlace, tmp_path: Path, batch: int) -> None:
    files = {}
    for name in (f"{ROWS}/batch-{batch:08}-000.parquet", f"_figures/{batch:08}-{batch:08}.arrow"):
        files[name] = tmp_path / f"attempt-{len(files)}"
        files[name].write_bytes(b"rows %d" % batch)
    place.publish(batch, files)


def names(out: str) -> list[str]:
    folder = open_folder(out)
    rows = [f"{ROWS}/{file.name}" for file in folder.below(ROWS).files()]
    return sorted([*rows, *(file.name for file in folder.files())])


def test_what_never_counted_is_removed(out: str, tmp_path: Path) -> None:
    place = open_tables(out, tmp_path / "attempts")
    publish(place, tmp_path, 0)
    place.settle(0)
    publish(place, tmp_path, 1)
    assert len([name for name in names(out) if name.startswith(ROWS)]) == 2
    open_tables(out, tmp_path / "attempts").clean(0)
    assert names(out) == [f"{ROWS}/batch-00000000-000.parquet"]
    assert open_folder(out).read(f"{ROWS}/batch-00000000-000.parquet") == b"rows 0"


def test_a_batch_that_counts_stays_although_its_run_was_killed(out: str, tmp_path: Path) -> None:
    publish(open_tables(out, tmp_path / "attempts"), tmp_path, 0)
    open_tables(out, tmp_path / "attempts").clean(0)
    assert names(out) == [f"{ROWS}/batch-00000000-000.parquet"]


def test_nothing_above_the_place_is_removed(s3: str, tmp_path: Path) -> None:
    above = open_folder(f"s3://captures/{tmp_path.name}{s3}")
    above.write("precious", b"x")
    above.write("out/_pending-00000007.json", b'["../precious"]')
    FarTables(f"s3://captures/{tmp_path.name}/out{s3}", tmp_path).clean(0)
    assert above.read("precious") == b"x"


def test_the_first_failure_of_many_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda name: print(1 // len(name)), ["a", "", "b"])
