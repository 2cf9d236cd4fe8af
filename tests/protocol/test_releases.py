"""Versions that a release serves: the schema's live versions, and what 4.0 had otherwise."""

import pytest

from kdissect.protocol.api_keys import ZOOKEEPER_CONTROL, ApiKey
from kdissect.protocol.releases import RELEASES, serves
from kdissect.protocol.schema.registry import APIS


@pytest.mark.parametrize("release", RELEASES)
def test_live_versions_are_served(release: str) -> None:
    others = {ApiKey.JOIN_GROUP, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE}
    for key in APIS.keys() - others - {ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE}:
        api = APIS[key]
        assert [version for version in api.versions if serves(release, api, version)] == list(api.live)


@pytest.mark.parametrize(
    ("release", "key", "version", "served"),
    [
        ("4.0", ApiKey.JOIN_GROUP, 1, False),  # KAFKA-19444
        ("4.1", ApiKey.JOIN_GROUP, 1, True),
        ("4.0", ApiKey.SHARE_FETCH, 0, True),  # early access
        ("4.0", ApiKey.SHARE_FETCH, 1, False),
        ("4.4", ApiKey.SHARE_FETCH, 0, False),
        ("4.4", ApiKey.SHARE_FETCH, 1, True),
        ("4.0", ApiKey.PRODUCE, 2, False),  # KIP-896
        ("4.0", ApiKey.PRODUCE, 3, True),
    ],
)
def test_what_changed_between_releases(release: str, key: ApiKey, version: int, served: bool) -> None:
    assert serves(release, APIS[key], version) is served


def test_nobody_serves_what_zookeeper_based_controllers_sent() -> None:
    assert not any(
        serves("4.0", APIS[key], version) for key in ZOOKEEPER_CONTROL for version in APIS[key].versions
    )


def test_what_nobody_knows_counts_as_served() -> None:
    assert serves("4.0", None, 3)
    assert serves("4.0", APIS[ApiKey.PRODUCE], 999)
