"""The engine of a replay: which request is sent when, from the first moment to the last response.

In: a loaded capture and a known target. Out: one result for each captured request (`pass_results`).

- `run` puts a replay together, and sends pass by pass; `sharding` deals connections out to processes,
  which `workers` runs.
- `pass_worker` is what one process does: a `player` with a connection pool and prepared requests.
- `player` keeps time and order: `schedule` says when a request is due, `connection_queue` what waits on which
  connection, and when to look at it, `run_limits` what may be sent and when a pass ends,
  in all processes. `request_accounts` writes down how each request ended.
- `fast_path` sends what waits for nothing without its handler, as the same bytes.
- `dry_target` answers in memory (`--dry-target`), Produce requests by `dry_produces`; `produce_frames` reads
  what they write.
- `crash_recovery` saves what a killed one has sent.
"""
