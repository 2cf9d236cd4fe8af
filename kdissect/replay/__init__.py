"""Replay: captured traffic, sent again to another cluster, and the truth about what differed.

The way of the data, one package for each step:

    capture ─► load ─► handlers ────► engine ──► net ─► target
               requests   rewrite       order       sockets
               policy     target        pace        clock
                                          └─► results ─► text, JSON, page

Bytes that are sent as captured fail without an error: a producer id of another cluster is taken for a
duplicate or for a stranger, a fetch session is not known, an assignment names members that do not exist. So
every request is decoded, its values are rewritten by their *roles* (see `protocol.schema`), it is converted
to a version that the target speaks and routed to the node that the target names, and the replay learns from
the responses. A request whose meaning cannot be carried over is *skipped*, with a reason. Each request ends
with exactly one `disposition`, and the sum is checked.

- `load` reads exchanges in time order, and decides before the clock starts: what policy forbids, which
  requests are retries, who issues an id that others use. Frames and decoded bodies wait in a `Spool`, so
  memory holds facts only.
- `rewrite` puts the target's values into trees and batches; `target` knows what stands for what: leaders,
  producers, members, sessions, positions.
- A *handler* says how one captured request is replayed. It is a coroutine that yields `effects` (frames to be
  sent, a gate to open, a pause) and is given what came of them. Handlers touch neither socket nor clock.
- `engine` keeps the order of each captured connection, and no more in flight than was captured. Each request
  has its moment by the pace, and everything that waits has a deadline. What can be prepared is prepared a
  window ahead and sent without a handler. Connections that share nothing (`load.connection_groups`) are dealt
  out to processes.
- `net` has the connections to nodes of the target: frames in, frames out, responses in the order of the
  requests. Its module `transport` is the only one with sockets and a clock; tests put another one in its
  place.
- `plan` says beforehand what a run would do. After the last response `results` writes what happened, pair by
  pair, and reports from those files alone.
- `settings`, `safety`, `identifiers` and `pass_state` hold what all of them share: what the user asked for,
  where a replay must not go, the keys by which things are known, and the time, the ends and the notes of one
  pass.

Order of work for each request: dependencies (ids that another request must get first), identity (producer,
member, session), values by role, version, partitions by leader. Dependencies only ever point to requests that
were captured earlier, so waiting cannot go in circles.
"""
