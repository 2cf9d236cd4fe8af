"""Files of tasks, in folders of this machine or returned to the driver: the contents are the same."""

from pathlib import Path

from kdissect.spark.watch.task_files import (
    AttemptFiles,
    LeftFiles,
    TaskFiles,
    returned_files,
    state_name,
)


def leave(files: TaskFiles, partition: int) -> LeftFiles:
    """Do what a task does: write rows, and leave the state."""
    with files.folder() as folder:
        paths = []
        if folder is not None:
            paths = [f"exchanges/hour=1/batch-{partition}.parquet"]
            (folder / paths[0]).parent.mkdir(parents=True)
            (folder / paths[0]).write_bytes(b"rows %d" % partition)
        return files.leave(partition, b"state %d" % partition, folder, paths)


def attempt(tmp_path: Path, files: TaskFiles) -> dict[str, bytes]:
    """Return the rows of two tasks by path when the batch counts, and their states."""
    state, out = tmp_path / "state", tmp_path / "out"
    left = LeftFiles()
    for partition in range(2):
        left.add(leave(files, partition))
    left.write(state, out)
    assert (left.states, left.rows) == ({}, {})
    for path in state.iterdir():
        assert path.stat().st_mode & 0o077 == 0
    rows = {path: (out / inside).read_bytes() for path, inside in left.paths.items()}
    return {**rows, **{path.name: path.read_bytes() for path in state.iterdir()}}


def test_both_kinds_leave_the_same(tmp_path: Path) -> None:
    expected = {f"exchanges/hour=1/batch-{number}.parquet": b"rows %d" % number for number in range(2)}
    expected |= {state_name(number): b"state %d" % number for number in range(2)}
    for returns in (False, True):
        folder = tmp_path / str(returns)
        for name in ("state", "out"):
            (folder / name).mkdir(parents=True)
        files: TaskFiles = AttemptFiles(None, folder / "state", folder / "out")
        if returns:
            files = returned_files(None, 2, has_rows=True)
        with files.folder() as rows:
            assert rows is not None
        assert files.state(0) is None
        assert attempt(folder, files) == expected
        after: TaskFiles = AttemptFiles(folder / "state", folder, None)
        if returns:
            after = returned_files(folder / "state", 2, has_rows=False)
        found = after.state(1)
        assert found is not None
        assert found[0] == b"state 1"
        assert found[1].endswith(state_name(1))


def test_rows_that_nobody_wants_have_no_folder(tmp_path: Path) -> None:
    for files in (AttemptFiles(None, tmp_path, None), returned_files(None, 1, has_rows=False)):
        with files.folder() as rows:
            assert rows is None
        assert leave(files, 0).paths == {}
