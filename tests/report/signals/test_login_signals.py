"""Logins that a server ends without a response."""

from pathlib import Path

from kdissect.protocol.api_keys import ApiKey
from tests.helpers.told_capture import Story
from tests.helpers.told_groups import analyzed


def logins(count: int, *, succeed_last: bool = False) -> Story:
    """Return a story of logins of one client, each of which the server closes."""
    story = Story()
    for number in range(count):
        at_ms = 1_000 + 2_000 * number
        line = story.connect("10.1.0.2", client_id="app", at_ms=at_ms)
        line.call(at_ms + 1, 1, ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"}, {"mechanisms": ["PLAIN"]})
        token = {"auth_bytes": b"\0bob\0secret"}
        if succeed_last and number == count - 1:
            line.call(at_ms + 3, 1, ApiKey.SASL_AUTHENTICATE, 1, token, {"auth_bytes": b""})
        else:
            line.ask(at_ms + 3, ApiKey.SASL_AUTHENTICATE, 1, token)
            line.close(at_ms + 100, by_client=False)
    return story


def test_two_logins_that_are_cut_off_are_refused(tmp_path: Path) -> None:
    (signal,) = (one for one in analyzed(logins(2), tmp_path).signals if one.kind == "credentials_refused")
    assert (signal.requests, signal.clients) == (2, ("app at 10.1.0.2",))
    assert "(SASL PLAIN, user bob)" in signal.sentence
    assert "secret" not in signal.sentence
    assert signal.evidence[0].count == 2


def test_one_that_is_cut_off_and_one_that_succeeds_are_not(tmp_path: Path) -> None:
    for number, story in enumerate((logins(1), logins(3, succeed_last=True))):
        folder = tmp_path / str(number)
        folder.mkdir()
        kinds = {one.kind for one in analyzed(story, folder).signals}
        assert "credentials_refused" not in kinds
