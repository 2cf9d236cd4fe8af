"""Dictionary codes: their texts are those of the plain columns, whatever the bytes are."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables import coded_columns
from kdissect.tables.array_batch import ArrayBatch, array_column
from kdissect.tables.arrow_columns import name_column, text_column, uuid_column
from kdissect.tables.coded_columns import coded_names, coded_spans, coded_uuids, table_batch

TEXTS = st.lists(
    st.one_of(st.none(), st.sampled_from([b"", b"a", b"b\xc3\xa9", b"\xff", b"\xfe"]), st.binary())
)
SCHEMA = pa.schema([("name", pa.string()), ("number", pa.int64())])


def spans(texts: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return an arena and where in it the texts lie."""
    lengths = np.array([len(text or b"") for text in texts], np.int64)
    start = np.cumsum(lengths) - lengths + 1
    start[[text is None for text in texts]] = -1
    return (
        np.frombuffer(b"\0" + b"".join(text or b"" for text in texts) + b"\0", np.uint8).copy(),
        start,
        lengths,
    )


@given(TEXTS)
def test_texts_are_those_of_the_plain_column(texts: list[bytes | None]) -> None:
    arena, start, length = spans(texts)
    coded = coded_spans(arena, start, length)
    assert coded.arrow().to_pylist() == text_column(arena, start, length).to_pylist()
    known = coded.texts.to_pylist()
    assert len(set(known)) == len(known)
    assert None not in known


@given(TEXTS)
def test_spans_are_numbered_alike_with_and_without_the_compiler(texts: list[bytes | None]) -> None:
    arena, start, length = spans(texts)
    found = []
    for compiled in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coded_columns, "COMPILED", compiled)
            numbers, firsts = coded_columns.distinct_spans(arena, start, length)
        found.append((numbers.tolist(), firsts.tolist()))
    assert found[0] == found[1]


@given(st.lists(st.sampled_from([None, bytes(16), b"1" * 16, b"1" * 15 + b"2"])))
def test_ids_are_those_of_the_plain_column(ids: list[bytes | None]) -> None:
    arena, start, _ = spans(ids)
    assert coded_uuids(arena, start).arrow().to_pylist() == uuid_column(arena, start).to_pylist()


@pytest.mark.parametrize("names", [{}, {3: "three", -1: "none"}, {0: "a", 1 << 40: "b"}])
def test_names_are_those_of_the_plain_column(names: dict[int, str]) -> None:
    codes = np.array([3, -1, 0, 7, 1 << 40, -(1 << 62)], np.int64)
    expected = [names.get(code) for code in codes.tolist()]
    assert coded_names(names, codes).arrow().to_pylist() == name_column(names, codes).to_pylist() == expected
    present = codes == 3
    assert coded_names(names, codes, present).arrow().to_pylist() == [
        names.get(3),
        None,
        None,
        None,
        None,
        None,
    ]


def test_a_batch_has_texts_or_arrays() -> None:
    texts, numbers = pa.array(["a", None, "a"]), pa.array([1, None, 3])
    for columns in ((texts, numbers), (array_column(texts), array_column(numbers))):
        of_table = dict(zip(SCHEMA.names, columns, strict=True))
        plain, arrays = table_batch(of_table, SCHEMA), table_batch(of_table, SCHEMA, as_arrays=True)
        assert plain.schema == SCHEMA
        assert isinstance(arrays, ArrayBatch)
        assert [arrays[name].to_pylist() for name in SCHEMA.names] == [texts.to_pylist(), [1, None, 3]]
        assert plain.to_pydict() == {name: arrays[name].to_pylist() for name in SCHEMA.names}
