"""The fast path: requests that wait for nothing are encoded ahead of their moment and sent without a handler.

In: captured requests (`ReplayItem`) and the context of the pass. Out: frames on the connections of the pool,
and for each request its answers, at the one place where the player accounts for it.

The contract: **the fast path sends the same bytes as the handler would send**, but for the correlation id. A
request takes the fast path only if its handler would send it at once. The fast path leaves all else
(something has to be waited for, leaders have moved, the answer says anything but success) to the handler or
to the handler's own functions, so that each rule of rewriting has one home, in `handlers`.

- `prepared_requests` makes frames a window ahead of the clock: `PreparedRequests` holds what is ready, in
  parts (`prepared_parts`).
- `in_flight` sends a prepared request and follows it to its last answer: `InFlightRead`, `InFlightFetch`,
  `InFlightProduce`.
- `alike_produces` finds Produce requests like an earlier one, by the bytes that `produce_templates` keeps.
  `alike_in_flight` sends them: one object each way, in the place of parts.
- `expected_answer` compares a Produce answer with the one that is hoped for, as bytes, and recognizes answers
  that were decoded before and were good.

Two helpers are shared with the handlers and lie with them: `handlers.fetch_scan` reads a good Fetch answer
without decoding it, and `load.decoded_cache` keeps decoded requests until their turn.
"""
