"""The lab: real Kafka brokers, real clients and a recorder, all on this machine's loopback.

Captures made here are the project's ground truth. The contents that a capture must have are never taken
from kdissect: the brokers' request logs and the clients' own protocol logs count them.
"""
