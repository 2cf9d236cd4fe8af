"""TLS under Kafka: records, handshakes and keys; what a connection says in the clear, and the plaintext where keys are known.

It belongs to pass two because it needs streams in order, and gives streams in order back.
"""
