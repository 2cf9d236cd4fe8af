"""Connections to the target: frames in, frames out, answers in the order of requests. Only transport has sockets and a clock."""
