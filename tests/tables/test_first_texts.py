"""First texts of connections: those that were put, as a column and one by one."""

import pickle

import numpy as np
import pyarrow as pa

from kdissect.tables.coded_text import code_text
from kdissect.tables.first_texts import FirstTexts


def test_texts_are_those_that_were_put() -> None:
    texts = FirstTexts()
    assert texts.column(2).tolist() == [None, None]
    texts.put(np.array([3, 0]), code_text(pa.array(["b", "a"])))
    texts.put(np.array([5, 6, 9]), code_text(pa.array(["a", None, "c"])))
    texts.put(np.zeros(0, np.int64), code_text(pa.array([], pa.string())))
    assert texts.column(11).tolist() == ["a", None, None, "b", None, "a", None, None, None, "c", None]
    assert texts.column(4).tolist() == ["a", None, None, "b"]
    assert list(texts) == [(0, "a"), (3, "b"), (5, "a"), (6, None), (9, "c")]


def test_texts_begin_with_those_that_are_known() -> None:
    known = [(2, "x"), (0, None), (7, "x")]
    for texts in (FirstTexts(known), pickle.loads(pickle.dumps(FirstTexts(known)))):
        assert list(texts) == sorted(known)
        assert texts.column(3).arrow().to_pylist() == [None, None, "x"]
