"""`replay.engine.preflight`: what is found out before a capture is read."""

from __future__ import annotations

import contextlib
import shutil
import socket
import struct
import threading
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, Self

import pytest

from kdissect.capture.formats.file_types import InputError
from kdissect.cli.arguments import parse
from kdissect.cli.replay import replay
from kdissect.errors import OutputError, UsageError, UserError
from kdissect.protocol.codec.messages import encode_response
from kdissect.replay.engine import preflight
from kdissect.replay.engine.preflight import brokers_of_log, check_output, check_target
from kdissect.replay.engine.run import Replay
from kdissect.replay.load.captured_cluster import CapturedCluster
from kdissect.replay.net.auth import HandshakeFailed
from kdissect.replay.safety import AbortRun
from kdissect.replay.settings import Credentials, ReplaySettings, Tls
from tests.helpers.conversations import CAPTURES
from tests.helpers.replay_logs import make_log
from tests.lab.mock import MockCluster

STARTING_S = 4  # of the command, on a busy machine
SECRETS_BLOCK = 10
UNSUPPORTED, METADATA, SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 35, 3, 17, 18, 36


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def test_a_listener_that_accepts_and_is_silent_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert preflight.PATIENCE_S + STARTING_S < 10
    monkeypatch.setattr(preflight, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        began = time.monotonic()
        with pytest.raises(HandshakeFailed, match=f"127.0.0.1:{port}: .*no response"):
            check_target(ReplaySettings((("127.0.0.1", port),)))
        assert time.monotonic() - began < 2.5


def test_a_silent_broker_that_the_target_names_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as down:
        brokers = [silent.getsockname(), down.getsockname()]
        down.close()
        with ListeningBroker(brokers) as broker:
            where = f"127.0.0.1:{brokers[0][1]}, which 127.0.0.1:{broker.address[1]} names"
            with pytest.raises(AbortRun, match=f"{where} as a broker: .*no response"):
                check_target(ReplaySettings((broker.address,)))
    with ListeningBroker(brokers[1:]) as broker:  # one that is down is no reason to stop
        check_target(ReplaySettings((broker.address,)))
    assert broker.keys == [API_VERSIONS, API_VERSIONS, API_VERSIONS, METADATA]


def test_a_listener_that_is_silent_in_tls_is_named_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "PATIENCE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(AbortRun, match=f"127.0.0.1:{port} cannot be reached: no connection within 0.5 s"):
            check_target(ReplaySettings((("127.0.0.1", port),), tls=Tls(insecure=True)))


def test_nothing_is_read_if_the_target_cannot_be_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    broken = tmp_path / "broken.pcap"
    broken.write_bytes(bytes.fromhex("d4c3b2a1"))  # begins as a capture, and reading it fails
    with pytest.raises(AbortRun, match=f"127.0.0.1:{port} cannot be reached"):
        replay(parse(["replay", "plan", str(broken), "--target", f"127.0.0.1:{port}"]))


def test_a_path_that_is_no_capture_is_named_before_the_target_is_asked(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no packets here")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        for path, said in ((tmp_path / "missing.pcap", "no such file"), (text, "is not a packet capture")):
            with pytest.raises(InputError, match=said):
                replay(parse(["replay", "try", str(path), "--target", where]))
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):  # nobody has connected
            listener.accept()


@pytest.mark.parametrize(
    ("closes_at", "said"),
    [
        (API_VERSIONS, "the connection was closed, as by a listener that wants TLS (--tls) or a certificate"),
        (METADATA, "closes the connection after ApiVersions, as a listener with a login does (--sasl)"),
    ],
)
def test_a_listener_of_another_kind_is_said_so(closes_at: int, said: str) -> None:
    with ListeningBroker(closes_at=closes_at) as broker, pytest.raises(UserError) as refused:
        check_target(ReplaySettings((broker.address,)))
    assert said in str(refused.value)


def test_a_mock_cluster_that_speaks_to_clients_of_version_0_is_asked_again() -> None:
    with MockCluster(1) as cluster:
        where = (("127.0.0.1", cluster.ports[0]),)
        check_target(ReplaySettings(where))
        with pytest.raises(AbortRun, match="not another"):
            check_target(ReplaySettings(where, known_target="another"))


class ListeningBroker:
    """Answers requests for versions, brokers and mechanisms, and keeps the API keys of all requests.

    It says nothing to those in `silent_to`, and closes the connection at the first of `closes_at`.
    """

    def __init__(
        self,
        others: Sequence[tuple[str, int]] = (),
        silent_to: Collection[int] = (),
        closes_at: int | None = None,
    ) -> None:
        self._others, self._silent_to, self._closes_at = others, silent_to, closes_at
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._server.getsockname()
        self.keys: list[int] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            client, _ = self._server.accept()
            stream = client.makefile("rwb")
            while size := stream.read(4):
                request = stream.read(int.from_bytes(size, "big"))
                key, version = struct.unpack_from(">hh", request)
                self.keys.append(key)
                header = {"correlation_id": int.from_bytes(request[4:8], "big")}
                if key == self._closes_at:
                    client.shutdown(socket.SHUT_RDWR)
                    break
                if key in self._silent_to:
                    continue
                if key == METADATA:
                    response = encode_response(key, version, header, self._metadata())
                elif key == SASL_HANDSHAKE and self._silent_to:
                    taken = {"error_code": 0, "mechanisms": ["PLAIN"]}
                    response = encode_response(key, version, header, taken)
                else:
                    response = encode_response(API_VERSIONS, 0, header, _versions(version))
                stream.write(len(response).to_bytes(4, "big") + response)
                stream.flush()

    def _metadata(self) -> dict[str, Any]:
        brokers = [
            {"node_id": node, "host": host, "port": port, "rack": None}
            for node, (host, port) in enumerate((self.address, *self._others))
        ]
        return {"brokers": brokers, "controller_id": 0, "topics": []}


def _versions(asked: int) -> dict[str, Any]:
    spoken = [
        {"api_key": each, "min_version": 0, "max_version": int(each == METADATA)} for each in (3, 17, 18, 36)
    ]
    return {"error_code": UNSUPPORTED if asked else 0, "api_keys": spoken}


def test_no_login_is_tried_while_the_captured_brokers_are_unknown() -> None:
    with ListeningBroker() as broker:
        login = Credentials("PLAIN", "player", "correct horse")
        check_target(ReplaySettings((broker.address,), credentials=login, plaintext_credentials=True))
    assert set(broker.keys) == {18}


@pytest.mark.parametrize(
    ("silent_to", "sentence"),
    [
        (SASL_HANDSHAKE, "SASL PLAIN: .*no response came$"),
        (SASL_AUTHENTICATE, "as player: .*no response came$"),
    ],
)
def test_a_login_that_is_never_answered_ends_in_time(
    silent_to: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "PATIENCE_S", 0.5)
    login = Credentials("PLAIN", "player", "correct horse")
    with ListeningBroker(silent_to=[silent_to]) as broker:
        settings = ReplaySettings((broker.address,), credentials=login, plaintext_credentials=True)
        captured, began = CapturedCluster(addresses={("10.9.8.7", 9092)}), time.monotonic()
        with pytest.raises(HandshakeFailed, match=f"127.0.0.1:{broker.address[1]}: .*{sentence}"):
            check_target(settings, captured)
        assert time.monotonic() - began < 2.5
    assert broker.keys[-1] == silent_to


def test_a_log_tells_the_captured_brokers_before_it_is_read(tmp_path: Path) -> None:
    assert brokers_of_log([str(CAPTURES / "steady.pcapng")]) is None
    log = tmp_path / "log"
    make_log([str(CAPTURES / "steady.pcapng")], log)
    source = brokers_of_log([str(log)])
    assert source is not None
    with closing(Replay(ReplaySettings((("127.0.0.1", 1),)), [str(log)])) as replay_of_log:
        assert source.addresses == replay_of_log.loaded.source.addresses
    login = Credentials("PLAIN", "player", "correct horse")
    with ListeningBroker() as broker:
        settings = ReplaySettings((broker.address,), credentials=login, plaintext_credentials=True)
        with pytest.raises(HandshakeFailed, match="SASL PLAIN"):
            check_target(settings, source)
        assert broker.keys[-1] == SASL_HANDSHAKE
    with ListeningBroker() as other:
        settings = ReplaySettings((other.address,), credentials=login, plaintext_credentials=True)
        captured = CapturedCluster(addresses={other.address})
        with pytest.raises(AbortRun, match="captured"):
            check_target(settings, captured)
    assert other.keys == []


def test_the_directory_of_a_run_is_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_output(tmp_path / "deep" / "run", [])
    assert not (tmp_path / "deep" / "run").exists()
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="already exists"):
        check_output(tmp_path / "there", [])
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        check_output(tmp_path / "file" / "run", [])
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: Usage(9, 8, 1))
    with pytest.raises(OutputError, match=r"may take 16\.0 MiB, and 1 B are free"):
        check_output(tmp_path / "run", [])


def test_missing_secrets_of_tls_are_no_empty_success(tmp_path: Path) -> None:
    capture = tmp_path / "secret.pcapng"
    capture.write_bytes(without_secrets((CAPTURES / "tls.pcapng").read_bytes()))
    with MockCluster(1) as cluster, pytest.raises(UserError, match=r"TLS connections? cannot be .*--keylog"):
        replay(parse(["replay", "plan", str(capture), "--target", cluster.bootstrap]))


def without_secrets(data: bytes) -> bytes:
    """Return a pcapng capture without its blocks of secrets."""
    kept, place = b"", 0
    while place < len(data):
        kind, size = struct.unpack_from("=II", data, place)
        kept += b"" if kind == SECRETS_BLOCK else data[place : place + size]
        place += size
    return kept
