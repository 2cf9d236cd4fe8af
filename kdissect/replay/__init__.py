"""Replay: captured traffic, sent again to another cluster, and the truth about what differed.

The way of the data, one package for each step:

    capture ─► loading ─► courses ───► playing ─► linking ─► target
               requests,  rewriting,   lines,     frames,    sockets,
               policy,    mapping,     pace       FIFO       clock
               index      routing         └─► reporting ─► text, JSON, page

Bytes that are sent as captured fail in silence: a producer id of another cluster is taken for a duplicate or for a stranger, a
fetch session is not known, an assignment names members that do not exist. So every request is decoded, its values are rewritten by
their *roles* (see `protocol.layout.ROLES`), converted to a version that the target speaks, routed to the node that the
target names, and what the target answers is learnt from. A request whose meaning cannot be carried over is *skipped*, with a
reason; a request ends in exactly one bucket (`accounting`), and the sum is checked.

- `loading` reads exchanges in time order, as a dump does (frames and decoded bodies wait on a `Spool`, so memory holds
  facts only), and decides ahead of the clock: what policy forbids, which requests are retries, who issues an id that others use.
- `rewriting` puts the target's values into trees and batches; `mapping` is what stands for what: leaders, producers, members,
  sessions, positions.
- A *course* is how one captured request is replayed: a generator that yields what it needs (`steps`: frames to be asked, a
  gate to open, a pause) and is given what came of it. Courses touch neither socket nor clock.
- `playing` has one *line* for each captured connection: order is kept, no more is in flight than was captured, each
  request has its moment by the pace. A *calendar* says which lines to look at. Everything that waits has a deadline. What
  can be made before its moment is made then, a window ahead, and goes out without a course. Connections that share nothing
  (`loading.kin`) are dealt out to processes, one for each core.
- `linking` has the connections to nodes of the target: frames in, frames out, answers in the order of the requests. Its module
  `transport` is the only one with sockets and a clock. Tests put another one in its place, with a clock of their own.
- `planning` says beforehand what a run would do; after the last answer `reporting` writes what happened, pair by pair, and reports
  from those files alone.

Order of work for each request: dependencies (ids that another request must get first), identity (producer, member,
session), values by role, version, partitions by leader. Dependencies only ever point to requests that were captured earlier, so
waiting cannot go in circles.
"""
