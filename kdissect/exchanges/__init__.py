"""Decoded exchanges in the order in which they began, for dumps and replays."""
