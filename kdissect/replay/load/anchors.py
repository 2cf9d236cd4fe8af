"""For `--pace think`: the response that the client of a request had seen last, and how long it thought since.

In: the items of a capture. Out: for each request the index of the request whose response came last on its
connection before it was sent (-1: none), and the time since then. Without such a response the time counts
from the first request of the connection. Responses of requests that are not sent do not count.
"""

import numpy as np

from kdissect.array_types import Int64s
from kdissect.replay.load.replay_items import ReplayItems
from kdissect.replay.load.request_table import NONE


def captured_anchors(items: ReplayItems) -> tuple[Int64s, Int64s]:
    """Return the anchor of each request, and the gap (ns)."""
    connections, first_ns, answered_ns = (
        items.column(name) for name in ("connection", "first_ns", "answered_ns")
    )
    anchors, gaps_ns = np.full(len(items), NONE, np.int64), np.zeros(len(items), np.int64)
    answers = (answered_ns != NONE) & items.sent()
    order = np.argsort(connections, kind="stable")
    edges = np.flatnonzero(np.diff(connections[order])) + 1
    for rows in np.split(order, edges) if len(order) else ():
        sent_ns = first_ns[rows]
        gaps_ns[rows] = sent_ns - sent_ns[0]
        answered = rows[answers[rows]]
        answered = answered[np.lexsort([answered, answered_ns[answered]])]
        if not len(answered):
            continue
        place = np.searchsorted(answered_ns[answered], sent_ns, "right") - 1
        # A response may come before its request, or at its time: of such a pair the request is not later.
        while (late := (place >= 0) & (answered[place] >= rows)).any():
            place[late] -= 1
        there = place >= 0
        anchors[rows[there]] = answered[place[there]]
        gaps_ns[rows[there]] = sent_ns[there] - answered_ns[answered[place[there]]]
    return anchors, gaps_ns
