"""Names of topics that the capture has by id only, learnt from requests that name the same offsets.

A topic id has a name where a Metadata response tells it. A capture that begins later may have a Fetch by
id and a Produce or an OffsetCommit by name. The end of a partition is the same number in all of them, in the
same second. Offsets that meet often, and hardly ever those of another name, are of one topic. A member that
is far behind commits offsets that nobody else has. But if it fetches one topic, it commits that one.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

import numpy as np

from kdissect.array_types import Bools
from kdissect.report.aggregate.grouping import TableColumns
from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.partials import Partial

SECOND = 10**9
LEAST_OFFSET = 10
"""Smaller offsets are those of every topic that is new."""

LEAST_MEETINGS, LEAST_SHARE, TIMES_OTHERS = 8, 0.4, 5
"""So often, in this share of the places where an id was seen, and so many times as often as another name."""

COLUMNS = ("topic", "topic_id", "partition", "offset", "end_offset", "order_ns")

Client = tuple[str, str | None]
"""A client id and its host."""

Place = tuple[int, int, int]
"""A partition, an offset and a second."""


def names_by_offsets(partial: Partial, positions: PartialTable, known: Collection[str]) -> dict[str, str]:
    """Return the names of topic ids that are not known, as far as offsets tell them.

    `positions` is a table of positions: offsets written, fetched and committed, and ends of logs.
    """
    columns = partial.columns(positions)
    has_name = columns.present("topic")
    unnamed = _unknown_ids(columns, ~has_name, known)
    if not unnamed or not has_name.any():
        return {}
    names: dict[Place, set[str]] = defaultdict(set)
    places: dict[str, set[Place]] = defaultdict(set)
    for row in columns.dicts(*COLUMNS):
        offset = row["offset"] if row["end_offset"] is None else row["end_offset"]
        if row["partition"] is None or offset is None or offset < LEAST_OFFSET:
            continue
        place = row["partition"], offset, -row["order_ns"] // SECOND
        if row["topic"] is not None:
            names[place].add(row["topic"])
        elif row["topic_id"] in unnamed:
            places[row["topic_id"]].add(place)
    found = {topic_id: _name_at(names, own) for topic_id, own in places.items()}
    return {topic_id: name for topic_id, name in found.items() if name is not None}


def _unknown_ids(columns: TableColumns, rows: Bools, known: Collection[str]) -> set[str]:
    """Return the topic ids of some rows that are not known."""
    ids = columns.text("topic_id")
    numbers = np.unique(ids.numbers[rows & (ids.numbers >= 0)])
    return set(ids.texts.take(numbers).to_pylist()) - set(known)


def _name_at(names: Mapping[Place, Collection[str]], places: Collection[Place]) -> str | None:
    """Return the name that stands at many of some places where hardly another one does, None without."""
    met = Counter(name for place in places for name in names.get(place, ())).most_common(2)
    if not met:
        return None
    (name, most), second = met[0], met[1][1] if len(met) > 1 else 0
    is_sure = most >= max(LEAST_MEETINGS, LEAST_SHARE * len(places), TIMES_OTHERS * second)
    return name if is_sure else None


def names_by_commits(partial: Partial, positions: PartialTable, known: Mapping[str, str]) -> dict[str, str]:
    """Return the names of topic ids that are not known, of clients that fetch one topic and commit one.

    The client commits no partition that it does not fetch, and no offset beyond the end of the log. A name
    that belongs to another id already is left out, and so is an id for which two clients have other names.
    """
    columns = partial.columns(positions)
    if not _unknown_ids(columns, columns.equals("kind", "fetched"), known):
        return {}
    fetched: dict[Client, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    committed: dict[Client, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in columns.dicts(*COLUMNS, "kind", "client_id", "client_host"):
        client, partition, offset = (row["client_id"], row["client_host"]), row["partition"], row["offset"]
        if row["client_id"] is None or partition is None or offset is None:
            continue
        if row["kind"] == "fetched" and row["topic_id"] is not None:
            ends = fetched[client][row["topic_id"]]
            ends[partition] = max(ends.get(partition, 0), row["end_offset"] or offset)
        elif row["kind"] == "committed" and row["topic"] is not None:
            offsets = committed[client][row["topic"]]
            offsets[partition] = max(offsets.get(partition, 0), offset)
    named: dict[str, set[str]] = defaultdict(set)
    for client in fetched.keys() & committed.keys():
        if len(fetched[client]) == 1 and len(committed[client]) == 1:
            ((topic_id, ends),), ((name, offsets),) = fetched[client].items(), committed[client].items()
            fits = all(offset <= ends.get(number, -1) for number, offset in offsets.items())
            if fits and topic_id not in known:
                named[topic_id].add(name)
    sure = {topic_id: names.pop() for topic_id, names in named.items() if len(names) == 1}
    return {topic_id: name for topic_id, name in sure.items() if name not in known.values()}
