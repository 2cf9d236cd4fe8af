"""Connections that are over take no row, and their numbers still lead to what they were."""

import shutil
import subprocess
from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.exchanges import connection_log
from kdissect.exchanges.connection_log import ConnectionLog
from kdissect.exchanges.filter import ExchangeFilter
from kdissect.exchanges.prescan import prescan_capture
from kdissect.exchanges.reader import ExchangeReader
from kdissect.jit.rows import array_of
from kdissect.streams.processor import CLOSED_NS
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import keys_for
from tests.helpers.followed import VERSIONS
from tests.helpers.recorded import CAPTURES
from tests.helpers.segment_wire import CLIENT, SERVER, Wire, request, response

COUNT = 50
SPLIT_BYTES = 60_000


def conversations(folder: Path, pause_ns: int) -> list[Wire]:
    """Return connections on the same ports, one after the other, each closed and with an open request."""
    wires, now_ns = [], 1_700_000_000_000_000_000
    for number in range(COUNT):
        wire = Wire(folder / str(number), isn=(1000 * number, 7 * number), now_ns=now_ns).open()
        wire.send(CLIENT, request(3, 1, number)).send(SERVER, response(number))
        wires.append(wire.send(CLIENT, request(3, 1, COUNT + number)).close())
        now_ns = wire.now_ns + pause_ns
    return wires


@pytest.mark.parametrize("pause_ns", [1_000_000_000, 2 * CLOSED_NS])
def test_rows_are_used_again_and_numbers_are_not(tmp_path: Path, pause_ns: int) -> None:
    parts = [wire.splits(first_index=index) for index, wire in enumerate(conversations(tmp_path, pause_ns))]
    splits = [split for each, _ in parts for split in each]
    plain, log = (new_flow_processor(splits, VERSIONS, follows_tcp=False) for _ in range(2))
    expected, found, rows = [], [], []
    connections = ConnectionLog(log)
    for _, (pieces,) in parts:
        for batch in plain.feed(pieces):
            expected += batch.exchanges[["connection", "ordinal", "status"]].tolist()
        for batch in connections.feed(pieces):
            found += batch.exchanges[["connection", "ordinal", "status"]].tolist()
        latest_ns = int(array_of(log.state.connections)["last_ns"].max())
        for batch in connections.forget_over(latest_ns + pause_ns):
            found += batch.exchanges[["connection", "ordinal", "status"]].tolist()
        rows.append(len(log.row_of))
    for batch in plain.close():
        expected += batch.exchanges[["connection", "ordinal", "status"]].tolist()
    for batch in connections.close():
        found += batch.exchanges[["connection", "ordinal", "status"]].tolist()
    assert len(found) == 2 * COUNT
    assert sorted(found) == sorted(expected)
    assert max(rows) <= 1
    assert len(log.endpoints) == len(log.identities) <= 2
    known = array_of(plain.state.connections)
    for number in range(COUNT):
        assert connections.identity(number) == plain.identities[number]
        assert connections.endpoints(number) == plain.endpoints[number]
        assert connections.fact("client_side", number) == known["client_side"][number]
        assert connections.fact("first_ns", number) == known["first_ns"][number]


def followed(paths: list[str], *, forgets: bool) -> tuple[list[tuple[object, ...]], int]:
    """Return all that a reader tells of the exchanges, and how many connections it keeps at most."""
    index = index_captures(open_inputs(paths, "").files, SPLIT_BYTES)
    keys = keys_for(None, index.files)
    reader = ExchangeReader(index.splits, (), prescan_capture(index.splits, (), keys), keys)
    log = reader._connections
    if not forgets:
        log.forget_over = lambda _earliest_ns: iter(())  # type: ignore[method-assign]
    told, most = [], 0
    for each in reader.exchanges(ExchangeFilter().header_mask):
        number = each.connection
        place = (reader.identity(number), reader.addresses(number), reader.protocol(number))
        more = (reader.first_sequences(number), reader.has_beginning(number), reader.mechanism(number))
        told.append((place, more, each))
        most = max(most, len(log._processor.row_of))
    ends = sorted((*ends, first_ns) for ends, first_ns in reader.beginnings())
    return [*told, (ends, reader.unread_tls(set()))], most


HALF_CLOSED_NS = 8 * 10**9
"""Ends of the recordings answer for up to five seconds after the other one's FIN."""


@pytest.mark.parametrize(
    ("names", "closed_ns"),
    [
        (("tls.pcapng",), 0),
        (("sasl.pcapng",), 0),
        (("broker-restart.pcapng",), HALF_CLOSED_NS),
        (("rebalances.pcapng", "steady.pcapng"), HALF_CLOSED_NS),
    ],
    ids=["tls", "sasl", "broker-restart", "two captures"],
)
def test_a_reader_that_forgets_tells_the_same(
    names: tuple[str, ...], closed_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Connections are over earlier than in the product, so rows are used again, those of TLS too."""
    monkeypatch.setattr(connection_log, "CLOSED_NS", closed_ns)
    paths = [str(CAPTURES / name) for name in names]
    expected, all_of_them = followed(paths, forgets=False)
    found, most = followed(paths, forgets=True)
    assert found == expected
    assert most < all_of_them


@pytest.mark.skipif(not shutil.which("editcap"), reason="editcap (Wireshark) is not installed")
def test_a_connection_that_an_overlapping_capture_has_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second capture begins in the middle of the first one, and has connections that are over."""
    monkeypatch.setattr(connection_log, "CLOSED_NS", HALF_CLOSED_NS)
    source, paths = str(CAPTURES / "broker-restart.pcapng"), []
    for name, packets in (("first", "1-5000"), ("second", "2500-6790")):
        paths.append(str(tmp_path / name))
        subprocess.run(["editcap", "-r", source, paths[-1], packets], check=True)
    expected, all_of_them = followed(paths, forgets=False)
    found, most = followed(paths, forgets=True)
    assert found == expected
    assert most < all_of_them
