"""Names of topics that the capture has by id only, learnt from requests that name the same offsets.

A topic id has a name where a Metadata response tells it. A capture that begins later may have a Fetch by
id and a Produce or an OffsetCommit by name. The end of a partition is the same number in all of them, in the
same second. Offsets that meet often, and hardly ever those of another name, are of one topic.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from kdissect.report.aggregate.partial_tables import PartialTable
from kdissect.report.partials import Partial

SECOND = 10**9
LEAST_OFFSET = 10
"""Smaller offsets are those of every topic that is new."""

LEAST_MEETINGS, LEAST_SHARE, TIMES_OTHERS = 8, 0.4, 5
"""So often, in this share of the places where an id was seen, and so many times as often as another name."""

COLUMNS = ("topic", "topic_id", "partition", "offset", "end_offset", "order_ns")


Place = tuple[int, int, int]
"""A partition, an offset and a second."""


def names_by_offsets(partial: Partial, positions: PartialTable, known: Collection[str]) -> dict[str, str]:
    """Return the names of topic ids that are not known, as far as offsets tell them.

    `positions` is a table of positions: offsets written, fetched and committed, and ends of logs.
    """
    rows = partial.table(positions).select(COLUMNS)
    unnamed = {
        topic_id
        for topic_id in rows.filter(rows["topic"].is_null())["topic_id"].unique().to_pylist()
        if topic_id is not None and topic_id not in known
    }
    if not unnamed or rows["topic"].null_count == rows.num_rows:
        return {}
    names: dict[Place, set[str]] = defaultdict(set)
    places: dict[str, set[Place]] = defaultdict(set)
    for row in rows.to_pylist():
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


def _name_at(names: Mapping[Place, Collection[str]], places: Collection[Place]) -> str | None:
    """Return the name that stands at many of some places where hardly another one does, None without."""
    met = Counter(name for place in places for name in names.get(place, ())).most_common(2)
    if not met:
        return None
    (name, most), second = met[0], met[1][1] if len(met) > 1 else 0
    is_sure = most >= max(LEAST_MEETINGS, LEAST_SHARE * len(places), TIMES_OTHERS * second)
    return name if is_sure else None
