"""Errors that clients expect: the answer to a question, and not a failure.

A newer client learns the versions of an older broker (KIP-511), a member is given its id (KIP-394), a service
makes sure that its topic is there, an admin tries one kind of group after the other.
"""

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode

USUAL: frozenset[tuple[int, int]] = frozenset(
    {
        (ApiKey.API_VERSIONS, ErrorCode.UNSUPPORTED_VERSION),
        (ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED),
        (ApiKey.CREATE_TOPICS, ErrorCode.TOPIC_ALREADY_EXISTS),
        (ApiKey.DESCRIBE_GROUPS, ErrorCode.GROUP_ID_NOT_FOUND),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, ErrorCode.GROUP_ID_NOT_FOUND),
        (ApiKey.SHARE_GROUP_DESCRIBE, ErrorCode.GROUP_ID_NOT_FOUND),
        (ApiKey.STREAMS_GROUP_DESCRIBE, ErrorCode.GROUP_ID_NOT_FOUND),
    }
)
"""API keys and error codes."""


def is_usual(api_key: int | None, error_code: int | None) -> bool:
    """Return whether clients expect an error of an API."""
    return (api_key, error_code) in USUAL
