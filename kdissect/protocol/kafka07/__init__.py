"""Kafka 0.7: the protocol before versions, correlation ids and client ids."""
