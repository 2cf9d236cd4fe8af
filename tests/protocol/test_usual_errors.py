"""Which errors clients expect."""

import pytest

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.error_codes import ErrorCode
from kdissect.protocol.usual_errors import is_usual


@pytest.mark.parametrize(
    ("api_key", "code", "usual"),
    [
        (ApiKey.JOIN_GROUP, ErrorCode.MEMBER_ID_REQUIRED, True),
        (ApiKey.CREATE_TOPICS, ErrorCode.TOPIC_ALREADY_EXISTS, True),
        (ApiKey.HEARTBEAT, ErrorCode.MEMBER_ID_REQUIRED, False),
        (ApiKey.JOIN_GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
        (None, ErrorCode.MEMBER_ID_REQUIRED, False),
    ],
)
def test_only_answers_to_questions_are_usual(api_key: int | None, code: int, usual: bool) -> None:
    assert is_usual(api_key, code) == usual
