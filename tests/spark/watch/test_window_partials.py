"""Partials of a window add up to the same, whichever of its batches are merged."""

import pyarrow as pa
import pytest

from kdissect.report.aggregate.partial_tables import TOPIC_PARTITIONS
from kdissect.report.partials import EMPTY, Partial, merge
from kdissect.spark.watch.window_partials import CHUNK, WindowPartials


def partial(batch: int) -> Partial:
    """Return a partial in which a batch is a key, and one of three topics is shared."""
    rows = [("own", batch, 1), ("shared", batch % 3, 10)]
    table = pa.Table.from_pylist(
        [
            {"topic": topic, "topic_id": None, "partition": number, "mentions": count}
            for topic, number, count in rows
        ],
        TOPIC_PARTITIONS.schema,
    )
    return Partial({TOPIC_PARTITIONS.name: table})


def rows_of(partials: list[Partial]) -> list[tuple[str, int, int]]:
    rows = merge([EMPTY, *partials, partial(0)]).table(TOPIC_PARTITIONS).to_pylist()
    return sorted((row["topic"], row["partition"], row["mentions"]) for row in rows)


@pytest.mark.parametrize("width", [1, 3, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK])
@pytest.mark.parametrize("first", [0, 5])
def test_a_window_that_moves_has_what_its_batches_have(width: int, first: int) -> None:
    read: list[int] = []

    def again(batch: int) -> Partial:
        read.append(batch)
        return partial(batch)

    window = WindowPartials(again)
    for batch in range(first, first + 7 * CHUNK):
        window.add(batch, partial(batch))
        inside = range(max(first, batch - width + 1), batch + 1)
        window.keep(inside)
        assert rows_of(window.all()) == rows_of([partial(one) for one in inside])
        assert len(window.all()) <= width // CHUNK + 2 * CHUNK
    assert len(read) == len(set(read))


def test_a_window_that_jumps_forgets_chunks() -> None:
    window = WindowPartials(lambda batch: pytest.fail(f"{batch} is not needed"))
    for batch in range(2 * CHUNK):
        window.add(batch, partial(batch))
    window.keep([])
    assert window.all() == []
