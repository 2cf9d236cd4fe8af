"""The engine of a replay: which request is sent when, from the first moment to the last response.

In: a loaded capture and a known target. Out: one result for each captured request (`pass_results`).

- `run` puts a replay together, and sends pass by pass; `sharding` deals connections out to processes,
  which `workers` runs.
- `pass_worker` is what one process does: a `player` with a connection pool and prepared requests.
- `player` keeps time and order: `schedule` says when a request is due, `timer_queue` which connection to look
  at, `connection_queue` what waits there, `run_limits` what may be sent and when a pass ends.
- `fast_path` sends what waits for nothing without its handler, as the same bytes.
- `dry_target` answers in memory (`--dry-target`); `produce_frames` reads for it what is written.
- `stop_signal` stops all processes; `crash_recovery` saves what a killed one has sent.
"""
