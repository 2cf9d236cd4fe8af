"""Clients that a newer Kafka breaks: versions against the release notes, verdicts on clients made by hand."""

import pytest

from kdissect.protocol.releases import RELEASES, serves
from kdissect.protocol.schema.registry import APIS
from kdissect.report.build.check_upgrade import check_upgrade
from kdissect.report.model.upgrade_check import UpgradeVerdict
from tests.helpers.old_clients import old_clients

LOWEST_OF_4_0 = {
    0: 3,
    1: 4,
    2: 1,
    3: 0,
    8: 2,
    9: 1,
    10: 0,
    11: 2,
    12: 0,
    18: 0,
    19: 2,
    20: 1,
    22: 0,
    23: 2,
    26: 0,
    27: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
    34: 1,
    35: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
    42: 0,
    56: 2,
}
"""KIP-896, table of removed versions."""


@pytest.mark.parametrize(("key", "lowest"), LOWEST_OF_4_0.items())
def test_4_0_serves_from_the_version_that_kip_896_says(key, lowest):
    assert [serves("4.0", APIS[key], version) for version in range(lowest + 1)] == [False] * lowest + [True]


def test_what_changed_since_4_0():
    assert [serves(release, APIS[11], 0) for release in RELEASES[:4]] == [False, True, True, True]
    assert [serves(release, APIS[78], 0) for release in RELEASES[:4]] == [True, False, False, False]
    assert not any(serves(release, APIS[key], 0) for release in RELEASES for key in (4, 5, 6, 7))
    assert serves("4.0", APIS.get(999), 0)  # of an unknown API nothing is known


def test_verdicts():
    found = check_upgrade(old_clients(), "4.0")
    verdicts = {row.name.client_id: row.verdict for row in found.obstacles}
    assert verdicts == {
        "old": UpgradeVerdict.BREAKS,
        "asks": UpgradeVerdict.MAY_ADAPT,
        "broker": UpgradeVerdict.BREAKS,
        "joins": UpgradeVerdict.BREAKS,
        "ancient": UpgradeVerdict.BREAKS,
    }
    rows = {row.name.client_id: row for row in found.obstacles}
    assert rows["old"].formats == ("writes", "reads")
    assert [(use.api_name, use.api_version, use.exchanges) for use in rows["old"].used] == [
        ("Produce", 2, 2),
        ("Fetch", 3, 1),
    ]
    assert rows["broker"].controller
    assert not rows["old"].controller
    assert found.connections_not_judged == 1
    assert found.clients == 6
    assert "joins" not in {row.name.client_id for row in check_upgrade(old_clients(), "4.1").obstacles}
