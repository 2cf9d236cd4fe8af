"""Expressions over the fields of a record: what they mean, and what is refused."""

import pytest

from kdissect.payload.where import MOST_CHARACTERS, WhereError, parse_where

FIELDS = {
    "key": "k7",
    "value": {
        "amount": 120.5, "ok": True, "name": "it's", "items": [{"sku": "X1"}, 7], "first name": "A",
        "n": None,
    },
    "headers": {"source": "mobile"},
    "topic": "orders",
    "partition": 3,
    "offset": 41,
    "timestamp": 1_700_000_000_000,
}  # fmt: skip


@pytest.mark.parametrize("text", [
    "value.amount > 100 and key = 'k7'",
    "value.amount>=120.5 AND offset <> 40",
    "not value.amount < 100",
    "not (value.amount < 100 or key != 'k7')",
    "value.ok",
    "value.ok = true",
    "value.name = 'it''s'",
    'value."first name" == "A"',
    "value['first name'] = 'A'",
    "value.items[0].sku contains 'X'",
    "value.items contains 7",
    "value.missing is null and value.n is null and key is not null",
    "topic in ('payments', 'orders')",
    "headers.source = 'mobile' and partition = 3",
    "value.amount = 1.205e2",
    "timestamp > 0 and offset > -1",
    "key = 'x' or key = 'k7' and offset = 41",
])  # fmt: skip
def test_true(text: str) -> None:
    assert parse_where(text)(FIELDS) is True


@pytest.mark.parametrize("text", [
    "value.amount > '100'", "value.missing > 0", "value.missing = null", "value.items[9] = 1",
    "value.ok > false",
    "key contains 7", "value", "value.amount.deeper = 1", "not key = 'k7'", "value.ok = 1", "key < null",
])  # fmt: skip
def test_false(text: str) -> None:
    assert parse_where(text)(FIELDS) is False


@pytest.mark.parametrize("text", [
    "", "value.amount >", "amount > 1", "value.", "value[", "value['a'", "key = 'k7", "key = 'a' key",
    "(key = 'a'", "key in ()", "key is 7", "__import__('os')", "value.amount > 100; drop", "and",
    "key = = 'a'", "value[-1] = 1",
    "(" * 50 + "value" + ")" * 50, "value = 1 or " * 400, "x" * (MOST_CHARACTERS + 1),
])  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(WhereError):
        parse_where(text)
