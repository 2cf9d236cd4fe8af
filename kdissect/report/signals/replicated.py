"""Requests that may wait for other brokers than the one that they are sent to."""

from kdissect.protocol.api_keys import ApiKey

REPLICATED = frozenset(
    {
        ApiKey.PRODUCE,
        ApiKey.OFFSET_COMMIT,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.END_TXN,
    }
)
"""Requests that may wait for followers on other brokers, not for the server itself."""
