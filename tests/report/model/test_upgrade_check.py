"""The result of an upgrade check, as plain data with the words that scripts rely on."""

from kdissect.report.model.plain import to_plain
from kdissect.report.model.summary import ClientName
from kdissect.report.model.upgrade_check import (
    AffectedClient,
    RemovedVersionUse,
    UpgradeCheck,
    UpgradeVerdict,
)


def test_a_result_is_plain_data_with_the_name_beside_the_verdict():
    name = ClientName(
        client_id="old", client_software_name=None, client_software_version=None, client_host="h"
    )
    used = (RemovedVersionUse(0, "Produce", None, 3),)
    client = AffectedClient(name, UpgradeVerdict.BREAKS, used, ("writes",), controller=False)
    plain = to_plain(UpgradeCheck("4.0", 2, (client,), 1))
    assert (plain["release"], plain["clients"], plain["connections_not_judged"]) == ("4.0", 2, 1)
    (row,) = plain["obstacles"]
    assert (row["client_id"], row["verdict"], row["formats"]) == ("old", "breaks", ["writes"])
    assert row["used"] == [{"api_key": 0, "api_name": "Produce", "api_version": None, "exchanges": 3}]


def test_the_words_of_verdicts_stay():
    assert [verdict.value for verdict in UpgradeVerdict] == ["breaks", "may adapt"]
