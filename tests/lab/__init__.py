"""The lab: real Kafka brokers, real clients and a recorder, all on this machine's loopback.

Captures made here are the project's ground truth. What a capture must contain is never taken from kdissect:
it is counted by the brokers' request logs and by the clients' own protocol logs.
"""
