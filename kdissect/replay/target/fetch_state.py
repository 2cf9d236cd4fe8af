"""What connections read on the target by now: the partitions of their captured sessions, by leader and with the target's positions.

A fetch in a session changes little, and so does its replay: of all partitions only those are looked at again that the client named,
whose last answer brought something, or about which more is known than before. Only when leaders moved, or
another session begins, everything is dealt out anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kdissect.replay.rewrite.roles import Tree
from kdissect.replay.target.fetch_sessions import Wanted
from kdissect.replay.target.offsets import (
    Following,
    Partition,
    Positions,
)
from kdissect.replay.target.producers import Where

Nodes = dict[
    int, dict[Where, Tree]
]  # node -> the partitions that it is asked for, by their names on the target
Led = tuple[int, Where]  # who leads a partition, and its name on the target


@dataclass(slots=True)
class Entry:
    """One partition of a session."""

    where: Where
    led: Led
    captured: int  # the offset that the client named last
    asked: Tree  # as the target gets it
    following: Following
    known: Partition
    turn: int  # of what is known


@dataclass(slots=True)
class Changes:
    """What differs from the fetch before, node by node."""

    named: Nodes = field(default_factory=dict)
    gone: dict[int, list[Where]] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """One connection's."""

    wanted: object = None  # all that the captured session is about, which it goes by
    turn: int = -1  # of the topology
    nodes: Nodes = field(default_factory=dict)
    _entries: dict[Where, Entry] = field(default_factory=dict)

    def anew(self, wanted: Wanted, turn: int, entries: Iterable[Entry]) -> Changes:
        """Read these instead of what was read before."""
        before, self.wanted, self.turn = self.nodes, wanted, turn
        self._entries = {entry.where: entry for entry in entries}
        self.nodes = by_node(self._entries.values())
        changes = Changes()
        for node in before.keys() | self.nodes.keys():
            old, new = before.get(node, {}), self.nodes.get(node, {})
            changes.named[node] = {where: asked for where, asked in new.items() if old.get(where) != asked}
            changes.gone[node] = [where for where in old if where not in new]
        return changes

    def go_on(
        self, said: Mapping[Where, Entry], gone: Iterable[Where], positions: Positions | None
    ) -> Changes:
        """Take in what the client named and what it reads no more; find out what else has moved, unless nothing is translated."""
        changes, entries = Changes(), self._entries
        for where in gone:
            entry = entries.pop(where, None)
            if entry is not None:
                node, there = entry.led
                del self.nodes[node][there]
                if not self.nodes[node]:
                    del self.nodes[node]
                changes.gone.setdefault(node, []).append(there)
        if positions is not None:
            self._follow(said, positions, changes)
        for where, entry in said.items():
            known = entries.get(where)
            if known is None or known.asked != entry.asked:
                self._put(entry, entry.asked, changes)
            entries[where] = entry
        return changes

    def _follow(self, said: Mapping[Where, Entry], positions: Positions, changes: Changes) -> None:
        """Move on what the client left to its session."""
        for where, entry in self._entries.items():
            if where in said:
                continue
            offset = entry.following.offset
            if offset is None:
                if entry.turn == entry.known.turn:
                    continue
                entry.turn = entry.known.turn
                offset = positions.translate(where, entry.captured).offset
            if offset != entry.asked["fetch_offset"]:
                self._put(entry, entry.asked | {"fetch_offset": offset}, changes)

    def _put(self, entry: Entry, asked: Tree, changes: Changes) -> None:
        node, there = entry.led
        entry.asked = asked
        self.nodes.setdefault(node, {})[there] = asked
        changes.named.setdefault(node, {})[there] = asked


def by_node(entries: Iterable[Entry]) -> Nodes:
    """Give each node's partitions."""
    nodes: Nodes = {}
    for entry in entries:
        node, there = entry.led
        nodes.setdefault(node, {})[there] = entry.asked
    return nodes
