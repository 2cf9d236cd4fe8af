"""From the segments of connections to paired exchanges.

TCP reassembly, framing, detection, TLS and pairing.
"""
