"""TLS below Kafka: records, handshakes and keys.

It reads what the wire shows in the clear, and the plaintext if keys are known.

It works between reassembly and framing: it takes the bytes of a stream in order, and returns plaintext in
order.
"""
