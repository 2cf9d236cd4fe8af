"""`kdissect schema`: the table of APIs, and the fields of one message, for people and for pipes."""

import pytest

from kdissect.cli.main import main
from kdissect.dump.kafka07_schema_text import request_table
from kdissect.dump.schema_text import api_fields, find_api
from kdissect.protocol.releases import RELEASES
from kdissect.protocol.schema.registry import APIS

FETCH_4 = f"""\
FindCoordinator  key 10, version 4 of 0-6, flexible, live in Kafka {RELEASES[-1]}

request, after header 2
  key_type          int8      @coordinator_type
  coordinator_keys  []string  @coordinator_key

response, after header 1
  throttle_time_ms  int32    @throttle
  coordinators      []
    key             string   @coordinator_key
    node_id         int32    @broker
    host            string   @host
    port            int32    @port
    error_code      int16    @error
    error_message   string?  @error_message
"""


def shown(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["schema", *arguments]) == 0
    return capfd.readouterr().out


def test_the_table_has_every_api(capfd: pytest.CaptureFixture[str]) -> None:
    table = shown(capfd).splitlines()
    assert table[0].split() == ["KEY", "API", "VERSIONS", "FLEXIBLE", "LIVE", "PAIRS", "FORMER", "NAME"]
    rows = [line.split() for line in table[1 : len(APIS) + 1]]
    assert [(int(row[0]), row[1]) for row in rows] == [(key, api.name) for key, api in APIS.items()]
    assert rows[4][2:6] == ["0-7", "4+", "none", "8"]
    versions = sum(len(api.versions) for api in APIS.values())
    live = sum(len(api.live) for api in APIS.values())
    release = RELEASES[-1]
    assert table[len(APIS) + 2] == (
        f"{len(APIS)} API keys, {versions} versions of them, {live} live in Kafka {release}"
    )
    assert all(line == line.rstrip() for line in table)


def test_one_message_is_aligned_and_has_its_roles(capfd: pytest.CaptureFixture[str]) -> None:
    assert shown(capfd, "FindCoordinator", "--version", "4") == FETCH_4
    assert shown(capfd, "10", "--version", "4") == FETCH_4
    assert shown(capfd, "findcoordinator", "--version", "4") == FETCH_4


@pytest.mark.slow
def test_every_version_of_every_api_can_be_shown(capfd: pytest.CaptureFixture[str]) -> None:
    for api in APIS.values():
        for version in api.versions:
            assert shown(capfd, api.name, "--version", str(version)).startswith(
                f"{api.name}  key {api.key}, version {version} "
            )


def test_tags_and_what_bytes_hold_are_said(capfd: pytest.CaptureFixture[str]) -> None:
    assert "tag 0" in shown(capfd, "Produce")
    assert "holds ConsumerProtocolSubscription" in shown(capfd, "JoinGroup")


def test_the_requests_of_kafka_0_7_stand_apart(capfd: pytest.CaptureFixture[str]) -> None:
    apart = shown(capfd, "--version", "0.7")
    assert apart == "\n".join(request_table()) + "\n"
    assert shown(capfd).endswith("\n\n" + apart)


def test_a_name_means_the_api_of_today_if_there_is_one(capfd: pytest.CaptureFixture[str]) -> None:
    assert shown(capfd, "Fetch").startswith("Fetch  key 1, version 18 ")
    assert "of Kafka 0.7" in shown(capfd, "Fetch", "--version", "0.7")
    assert shown(capfd, "multifetch") == shown(capfd, "2", "--version", "0.7")
    assert "of Kafka 0.7" in shown(capfd, "Offsets").splitlines()[0]


def exit_code(arguments: list[str]) -> int | str | None:
    """Return the exit code of a command, whether its parser or its work refuses the arguments."""
    try:
        return main(arguments)
    except SystemExit as stopped:
        return stopped.code


@pytest.mark.parametrize(
    "arguments",
    [
        ["Nonsense"],
        ["Fetch", "--version", "99"],
        ["9999"],
        ["Metadata", "--version", "0.7"],
        ["Fetch", "--version", "new"],
        ["--version", "3"],
    ],
)
def test_wrong_questions_get_one_sentence(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code = exit_code(["schema", *arguments])
    assert code == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_a_version_that_is_served_on_request_only_is_unstable() -> None:
    api = find_api("InitProducerId")
    assert api is not None
    assert "version 6 of 0-6, flexible, unstable in Kafka 4.4" in api_fields(api, 6)[0]
    assert "flexible, live in Kafka 4.4" in api_fields(api, 5)[0]
