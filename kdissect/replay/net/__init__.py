"""Connections to the target: parts of requests in, answers out.

- `pool` runs the coroutines of handlers on connections, opens these as they are needed, and keeps deadlines.
- `connection` cuts bytes into frames and matches responses with requests; `auth` begins it.
- `transport` has the sockets and the clock, and is the only module of replay that does. Tests put another one
  in its place, with a clock of their own.
"""
