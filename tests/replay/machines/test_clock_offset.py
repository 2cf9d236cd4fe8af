"""`replay.machines.clock_offset`: how far two clocks are apart."""

from __future__ import annotations

from kdissect.replay.machines.clock_offset import ClockOffset, ClockSample, best_offset


def test_the_shortest_round_trip_counts() -> None:
    # The worker's clock is 1000 ahead. The first answer has waited for 500 on its way back.
    slow = ClockSample(t1=2000, t2=1010, t3=1020, t4=2530)
    quick = ClockSample(t1=3000, t2=2010, t3=2015, t4=3025)
    assert (slow.round_trip_ns, slow.offset_ns) == (520, 1250)
    clock = best_offset([slow, quick])
    assert clock == ClockOffset(1000, 10)
    assert clock.on_worker(5) == 1005
    assert clock.on_driver(1005) == 5
