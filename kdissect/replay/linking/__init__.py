"""Connections to the target: courses run on links, links on sockets. `transport` alone has sockets and a clock."""
