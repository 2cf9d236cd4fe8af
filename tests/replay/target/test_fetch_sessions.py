"""`replay.target.fetch_sessions`, against a target on paper."""

from __future__ import annotations

from kdissect.replay.load.captured_fetch_sessions import FetchScope
from kdissect.replay.settings import Offsets
from kdissect.replay.target.fetch_sessions import FetchChanges, FetchState, OwnFetchSession
from kdissect.replay.target.offsets import Positions
from tests.helpers.rewriting_cases import WHERE, read_partition


def test_own_sessions_say_only_what_changed() -> None:
    session = OwnFetchSession()
    everything = {("orders", 0): {"o": 1}, ("orders", 1): {"o": 1}}
    assert session.next_turn(everything, {}, []) == (0, 0, everything, ())
    session.take_response((0, 0), 33, 0)
    moved = {("orders", 0): {"o": 2}}
    assert session.next_turn(moved, moved, [("orders", 1)]) == (33, 1, moved, [("orders", 1)])
    session.take_response((33, 1), 33, 0)
    assert session.next_turn(moved, {}, []) == (33, 2, {}, [])
    session.take_response((33, 2), 0, 70)
    assert session.next_turn(moved, {}, []) == (0, 0, moved, ())


def test_a_fetch_names_only_what_moved() -> None:
    positions, scope, other = Positions(Offsets.AUTO, {}), FetchScope({}, {}, ()), ("orders", 1)
    state = FetchState()
    read = read_partition(positions, WHERE, 5)
    changes = state.replace(scope, 1, [read, read_partition(positions, other, 7)])
    assert state.nodes == {1: changes.named[1]}
    assert set(changes.named[1]) == {WHERE, other}
    assert state.update({}, (), positions) == FetchChanges()
    read.position.target = 6  # its answer brought something
    changes = state.update({}, (), positions)
    assert {where: each["fetch_offset"] for where, each in changes.named[1].items()} == {WHERE: 6}
    positions.add_written(other, 7, 1, 1007)  # what it waits for was written by this run
    changes = state.update({}, [WHERE], positions)
    assert {where: each["fetch_offset"] for where, each in changes.named[1].items()} == {other: 1007}
    assert changes.gone == {1: [WHERE]}
    assert set(state.nodes[1]) == {other}
    changes = state.replace(scope, 2, [read_partition(positions, other, 1007, node=2)])  # its leader moved
    assert (changes.gone[1], set(changes.named[2])) == ([other], {other})
    assert set(state.nodes) == {2}
