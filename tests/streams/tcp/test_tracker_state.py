"""The tables of the tracker grow and keep their rows."""

from kdissect.jit.rows import array_of
from kdissect.streams.tcp.tracker_state import new_tcp_state, with_tcp_connections


def test_rows_stay_when_there_are_more_connections() -> None:
    state = with_tcp_connections(new_tcp_state(10**9), 3)
    array_of(state.directions)["sent"][5] = 77
    array_of(state.connections)["closed_ns"][2] = 88
    grown = with_tcp_connections(state, 1000)
    assert array_of(grown.directions)["sent"][5] == 77
    assert array_of(grown.connections)["closed_ns"][2] == 88
    assert (len(grown.connections), len(grown.directions), len(grown.current)) == (1000, 2000, 2000)
    assert with_tcp_connections(grown, 10) is grown
