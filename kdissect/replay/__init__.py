"""Replay: captured traffic, sent again to another cluster, and the truth about what differed.

The way of the data, one module or package for each step:

    capture ─► captured ─► loading ─► courses ───► player ─► links ─► transport ─► target
               requests    policy,     rewriting,   lines,    frames,   sockets,
               and answers index       routing      pace      FIFO      clock
                                                      └─► runfiles ─► comparison ─► text, JSON, page

Bytes that are sent as captured fail in silence: a producer id of another cluster is taken for a duplicate or for a stranger, a
fetch session is not known, an assignment names members that do not exist. So every request is decoded, its values are rewritten by
their *roles* (see `protocol.layout.ROLES`), converted to a version that the target speaks, routed to the node that the
target names, and what the target answers is learnt from. A request whose meaning cannot be carried over is *skipped*, with a
reason; a request ends in exactly one bucket (`accounting`), and the sum is checked.

- `captured` reads exchanges in time order, as a dump does; frames wait on a `Shelf`, so memory holds facts only.
- `loading` decides ahead of the clock: what policy forbids, which requests are retries, who issues an id that others use.
- A *course* is how one captured request is replayed: a generator that yields what it needs (frames to be asked, a gate to
  open, a pause) and is given what came of it. Courses touch neither socket nor clock.
- `player` has one *line* for each captured connection: order is kept, no more is in flight than was captured, each
  request has its moment by the pace. Everything that waits has a deadline.
- `links` are connections to nodes of the target: frames in, frames out, answers in the order of the requests.
- `transport` is the only module with sockets and a clock. Tests put another one in its place, with a clock of their own.
- After the last answer `runfiles` writes what happened, pair by pair, and `comparison` reports from those files alone.

Order of work for each request: dependencies (ids that another request must get first), identity (producer, member,
session), values by role, version, partitions by leader. Dependencies only ever point to requests that were captured earlier, so
waiting cannot go in circles.
"""
