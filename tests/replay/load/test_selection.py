"""The filters of a replay: the same requests as in a dump with the same options."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.arguments import parse
from kdissect.cli.filter_options import filter_fields
from kdissect.cli.replay import replay, settings_of
from kdissect.errors import UsageError
from kdissect.exchanges.decoded import DecodedExchange
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.replay.load.request_table import Request
from kdissect.replay.load.requests import read
from kdissect.replay.load.spool import Spool
from tests.helpers.replay_logs import make_log
from tests.helpers.tiers import thorough_after

CAPTURES = Path(__file__).parents[3] / "captures"


def requests_of(capture: str, folder: Path, *options: str) -> list[Request]:
    """Return the captured requests as `kdissect replay plan` reads them with these options."""
    path = str(CAPTURES / capture)
    chosen = parse(["replay", "plan", path, "--target", "127.0.0.1:1", *options])
    return list(read([path], (), str(folder), Spool(), wanted=settings_of(chosen).filter).requests)


def dumped(capture: str, folder: Path, *options: str) -> set[tuple[int, int | None]]:
    """Return connection and ordinal of each exchange that `kdissect dump` shows with these options."""
    path = str(CAPTURES / capture)
    found = index_captures(open_inputs([path], str(folder)).files, 4 << 20)
    wanted = ExchangeFilter(**filter_fields(parse(["dump", path, *options]), found.earliest_time_ns or 0))
    prescan = prescan_capture(found.splits)
    reader = ExchangeReader(found.splits, (), prescan)
    return {
        (reader.identity(each.connection), each.ordinal)
        for each in reader.exchanges(wanted.header_mask)
        if each.request is not None and wanted.selects(DecodedExchange(each), prescan.names)
    }


@pytest.mark.parametrize(
    "options",
    [
        ("--broker", "1"),
        ("--broker", "1", "--broker", "2"),
        ("--error", "any"),
        ("--error", "NOT_LEADER_OR_FOLLOWER", "--api", "Produce"),
        ("--broker", "2", "--error", "any"),
        ("--client", "orders-*"),
        ("--since", "+5s", "--until", "10s"),
    ],
)
def test_a_replay_selects_what_a_dump_shows(tmp_path: Path, options: tuple[str, ...]) -> None:
    requests = requests_of("broker-restart.pcapng", tmp_path, *options)
    selected = {(each.connection, each.ordinal) for each in requests if not each.excluded_by}
    assert 0 < len(selected) < len(requests)
    assert selected == dumped("broker-restart.pcapng", tmp_path, *options)
    assert {each.excluded_by for each in requests} <= {"", *options[::2]}


@pytest.mark.parametrize(
    ("options", "said"),
    thorough_after(
        2,
        [
            (("--topic", "nonesuch"), "the topics there are __consumer_offsets, audit, booked, transfers"),
            (("--api", "Produce", "--topic", "nonesuch"), "the topics there are audit, booked, transfers"),
            (("--group", "x*"), "the groups there are bank-java, booker, .*"),
            (("--client", "x", "--client", "y"), "the client ids there are .* and 1 more"),
            (("--error", "NOT_COORDINATOR"), "the errors there are .*MEMBER_ID_REQUIRED"),
            (("--broker", "kafka-7"), r"the brokers there are 127\.0\.0\.1:19234, .*"),
            (("--api", "CreateTopics"), "the APIs there are AddPartitionsToTxn, ApiVersions, .* and 8 more"),
        ],
    ),
)
def test_a_filter_that_matches_nothing_is_refused_with_the_names_that_are_there(
    log_of_transactions: str, options: tuple[str, ...], said: str
) -> None:
    pattern = f"nothing matches {' '.join(options[2 if 'Produce' in options else 0 :])}: {said}"
    for path in (str(CAPTURES / "transactions.pcapng"), log_of_transactions):
        chosen = parse(["replay", "plan", path, "--dry-target", *options])
        with pytest.raises(UsageError, match=f"^{pattern.replace('*:', '[*]:')}$"):
            replay(chosen)


@pytest.mark.parametrize(
    ("option", "time"), thorough_after(1, [("--since", "2030-01-01"), ("--until", "2000-01-01")])
)
def test_a_time_outside_the_capture_is_refused_with_its_times(
    log_of_transactions: str, option: str, time: str
) -> None:
    for path in (str(CAPTURES / "transactions.pcapng"), log_of_transactions):
        with pytest.raises(UsageError, match=f"^{option} leaves nothing: the capture is from 2026-11-21T"):
            replay(parse(["replay", "plan", path, "--dry-target", option, time]))


@pytest.fixture(scope="module")
def log_of_transactions(tmp_path_factory: pytest.TempPathFactory) -> str:
    log = tmp_path_factory.mktemp("logs") / "log"
    make_log([str(CAPTURES / "transactions.pcapng")], log)
    return str(log)


@pytest.mark.parametrize("option", [("--topic", "audit"), ("--group", "x*")])
def test_what_names_no_topic_or_group_is_selected_too(tmp_path: Path, option: tuple[str, str]) -> None:
    requests = requests_of("transactions.pcapng", tmp_path, *option)
    selected = {(each.connection, each.ordinal) for each in requests if not each.excluded_by}
    shown = dumped("transactions.pcapng", tmp_path, *option)
    everything = dumped("transactions.pcapng", tmp_path)
    named = dumped("transactions.pcapng", tmp_path, option[0], "*")
    assert selected == shown | (everything - named)
    assert shown <= selected < everything
    assert bool(shown) == (option[0] == "--topic")
