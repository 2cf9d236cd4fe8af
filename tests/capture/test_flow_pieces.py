"""`capture.flow_pieces`: one key for both directions, one bucket in every table."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kdissect.capture.flow_pieces import (
    A_HOST,
    A_PORT,
    B_HOST,
    B_PORT,
    BUCKET,
    BUCKETS,
    PACKETS_AB,
    PACKETS_BA,
    call_all,
    take_fields,
)
from kdissect.jit.many_rows import MANY_ROWS
from tests.capture.flow_tables import opened, table_of
from tests.helpers.crafted_packets import ethernet, pcap, tcp
from tests.helpers.random_traffic import HOSTS


def test_buckets_are_the_same_in_every_table() -> None:
    data = opened(range(500))
    first, second = table_of(data), table_of(data)
    assert (first._multipliers != second._multipliers).any()  # so chains of the hash table differ
    np.testing.assert_array_equal(first.pieces, second.pieces)
    np.testing.assert_array_equal(first.segments, second.segments)


@given(
    st.tuples(st.sampled_from(HOSTS[:3]), st.integers(0, 0xFFFF)),
    st.tuples(st.sampled_from(HOSTS[:3]), st.integers(0, 0xFFFF)),
)
def test_both_directions_have_one_key(one: tuple[str, int], other: tuple[str, int]) -> None:
    there = ethernet(tcp(one[0], other[0], (one[1], other[1]), b"there"))
    back = ethernet(tcp(other[0], one[0], (other[1], one[1]), b"back"))
    flows = table_of(pcap([(1, 0, there), (2, 0, back)]))
    assert len(flows.pieces) == 1
    row = flows.pieces[0].tolist()
    assert (row[A_HOST : A_HOST + 4], row[A_PORT]) <= (row[B_HOST : B_HOST + 4], row[B_PORT])
    assert row[PACKETS_AB] + row[PACKETS_BA] == 2
    if one != other:
        assert row[PACKETS_AB] == 1
    assert 0 <= row[BUCKET] < BUCKETS


def test_fields_of_many_pieces_are_those_of_few() -> None:
    call_all()
    random = np.random.default_rng(6)
    pieces, fields = random.integers(0, 1 << 40, (2 * MANY_ROWS, 23)), np.array([BUCKET, A_HOST, A_PORT])
    rows = random.integers(0, len(pieces), MANY_ROWS)
    many = take_fields(pieces, rows, fields)
    few = [take_fields(pieces, part, fields) for part in np.split(rows, 8)]
    np.testing.assert_array_equal(many, np.concatenate(few, axis=1))
    np.testing.assert_array_equal(many, pieces[rows][:, fields].T)
