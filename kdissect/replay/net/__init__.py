"""Connections to the target: parts of requests in, answers out.

- `pool` runs the coroutines of handlers on connections, opens these as they are needed, and keeps deadlines.
- `connection` cuts bytes into frames and matches responses with requests; `auth` begins it.
- `transport` has the connections' sockets and the clock. Tests put another one in its place, with a clock of
  their own.
- `dry_transport` has no sockets, and a target in memory at its other end (`--dry-target`).
- `resolver` asks the system for the addresses of names, and which addresses are its own. No other module of
  replay has sockets.
"""
