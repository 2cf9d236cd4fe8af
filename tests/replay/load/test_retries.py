"""`replay.load.retries`, against a target on paper."""

from __future__ import annotations

import pytest

from tests.helpers.paper_cluster import (
    PRODUCE,
    Cluster,
    batch,
    orders,
    produce,
    took,
)
from tests.helpers.paper_target import Script, replay


def test_retries_without_sequences_are_known_by_their_records() -> None:
    script = Script()
    script.add(0, PRODUCE, 9, produce(batch(text=b"same")), None, connection=1)  # never answered
    script.add(50, PRODUCE, 9, produce(batch(text=b"same")), took(0), connection=2)
    # The same again, on purpose.
    script.add(60, PRODUCE, 9, produce(batch(text=b"same")), took(0), connection=2)
    done = replay(script, Cluster(), target=orders())
    assert len(done.sent(PRODUCE)) == 2
    assert done.buckets() == {"answered": 2, "retry": 1}


@pytest.mark.parametrize("sequence", [-1, 3])
def test_a_third_attempt_is_a_retry_of_the_first(sequence: int) -> None:
    for errors, sent in (([0], 1), ([10, 0], 2), ([10, 10, 0], 3)):
        script = Script()
        script.add(0, PRODUCE, 9, produce(batch(sequence)), took(6), connection=1)
        script.add(50, PRODUCE, 9, produce(batch(sequence)), took(6), connection=2)
        script.add(90, PRODUCE, 9, produce(batch(sequence)), took(0), connection=3)
        done = replay(script, Cluster(key0=list(errors)), target=orders())
        assert len(done.sent(PRODUCE)) == sent
