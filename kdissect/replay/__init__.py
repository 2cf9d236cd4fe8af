"""Replay: captured traffic, sent again to another cluster, and the truth about what differed.

The way of the data, one package for each step:

    capture ─► load ─────► handlers ──► engine ─► net ─────► target cluster
               requests,   rewrite,     queues,   frames,
               policy,     target:      pace,     sockets,
               retries     what is      limits    clock
                           known          └─► results ─► text, JSON, page

Bytes that are sent as captured fail in silence: a producer id of another cluster is taken for a duplicate or
for an unknown one, a fetch session is not known, an assignment names members that do not exist. So every
request is decoded, its values are rewritten by their *roles* (see `protocol.schema.definition`), it is
converted to a version that the target speaks, and routed to the node that the target names; and the target's
responses are learnt from. A request whose meaning cannot be carried over is *skipped*, with a reason. Each
request ends in exactly one `disposition`, and the sum is checked.

- `load` reads exchanges in time order, as a dump does (frames and decoded bodies wait in a `Spool`, so memory
  holds facts only), and decides ahead of the clock: what policy forbids, which requests are retries, who gets
  an id that others use.
- `rewrite` puts the target's values into decoded requests and batches; `target` knows what stands for what:
  leaders, producers, members, sessions, positions. `safety` keeps a run away from the captured cluster.
- A *handler* is how one captured request is replayed: a coroutine that yields effects (`effects`: parts to be
  sent, a gate to open, a pause) and is sent the replies. Handlers touch neither socket nor clock.
- `engine` has a queue for each captured connection: order is kept, no more is in flight than was captured,
  each request has its time by the pace. Everything that waits has a deadline. A request that waits for
  nothing is encoded ahead of its moment, and goes by the fast path. Connections that share nothing are dealt
  out to processes.
- `net` has the connections to nodes of the target. Its module `transport` is the only one with sockets and a
  clock; tests put another one in its place, with a clock of their own.
- `plan` says beforehand what a run would do, and `create_topics` creates what the target lacks. After the
  last response, `results` writes what happened, pair by pair, and reports from those files alone.

Order of work for each request: dependencies (ids that another request must get first), identity (producer,
member, session), values by role, version, partitions by leader. Dependencies only ever point to requests that
were captured earlier, so waiting cannot go in circles.
"""
