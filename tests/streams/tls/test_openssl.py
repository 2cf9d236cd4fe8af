"""Handshakes that Python's ssl cannot be asked for: key updates, renegotiation, hello retry, early data.

OpenSSL's own programs do it.

A relay between `openssl s_client` and `openssl s_server` writes down what passes.
"""

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kdissect.streams.tls.keylog import parse
from tests.helpers.tls_ends import CLIENT, SERVER, Ends, certificate
from tests.streams.tls.test_decrypt_stage import ASKED, Found, read, wire_of

pytestmark = pytest.mark.skipif(not shutil.which("openssl"), reason="openssl is not installed")

# S_client takes a line that begins with a letter for a command, if nothing stands before it in the pipe.
PAUSE_S = 0.1
PATIENCE_S = 30  # on a machine that does other things as well


class Relay:
    """Passes bytes between a client and a server, and keeps them in the order in which they came."""

    def __init__(self, server_port: int) -> None:
        self.flights: list[tuple[int, bytes]] = []
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        server = connected(self._server_port)
        passing = [
            threading.Thread(target=self._pass, args=ends, daemon=True)
            for ends in ((CLIENT, client, server), (SERVER, server, client))
        ]
        for thread in passing:
            thread.start()
        for thread in passing:
            thread.join(PATIENCE_S)
        for end in (client, server, self._listener):
            end.close()

    def _pass(self, side: int, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                with self._lock:
                    self.flights.append((side, data))
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def wait(self) -> None:
        self._thread.join(PATIENCE_S)

    def wait_for(self, count: int) -> int:
        """Wait until the client has sent that many flights; give how many there are."""
        until = time.monotonic() + PATIENCE_S
        while (sent := sum(side == CLIENT for side, _ in self.flights)) < count and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(PAUSE_S)
        return sent


def connected(port: int) -> socket.socket:
    """Connect to a server that may only just have been started."""
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def spoken(folder: Path, said: list[bytes], server: list[str], client: list[str]) -> list[tuple[int, bytes]]:
    """Return the bytes on the wire while s_client sends text to s_server, piece by piece."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    listening = subprocess.Popen(
        [
            "openssl",
            "s_server",
            "-accept",
            f"127.0.0.1:{port}",
            "-cert",
            certificate(),
            "-key",
            certificate(),
            *server,
        ],
        stdin=subprocess.PIPE,
        **common,
    )
    try:
        relay = Relay(port)
        asking = subprocess.Popen(
            [
                "openssl",
                "s_client",
                "-connect",
                f"127.0.0.1:{relay.port}",
                "-keylogfile",
                folder / "keylog",
                *client,
            ],
            stdin=subprocess.PIPE,
            **common,
        )
        assert asking.stdin is not None
        sent = relay.wait_for(2)  # hello and finished
        for part in said:
            asking.stdin.write(part)
            asking.stdin.flush()
            sent = relay.wait_for(sent + 1)
        asking.stdin.close()
        asking.wait(PATIENCE_S)
        relay.wait()
        return relay.flights
    finally:
        listening.kill()
        listening.wait()


def understood(folder: Path, flights: list[tuple[int, bytes]]) -> Found:
    ends = Ends.__new__(Ends)
    ends.flights = flights
    return read(wire_of(ends, folder), parse([(folder / "keylog").read_bytes()]))


def check(found: Found, requests: int) -> None:
    assert [(row[0], row[2]) for row in found.exchanges] == [(at, ASKED[at][4:]) for at in range(requests)]
    assert (found.row["tls_decryption"], found.row["tls_outcome"]) == ("whole", "completed")


Case = tuple[list[bytes], list[str], list[str], Callable[[Found], bool]]


def _with_suite(option: str, suite: str, name: str) -> Case:
    """Both ends use one cipher suite, and its name is reported."""
    version = "-tls1_3" if option == "-ciphersuites" else "-tls1_2"
    return ASKED[:3], [option, suite], [version, option, suite], lambda found: found.row["tls_cipher"] == name


CASES: dict[str, Case] = {
    "key update by both": ([ASKED[0], b"K\n", ASKED[1], b"k\n", ASKED[2]], [], ["-tls1_3"], lambda _: True),
    "renegotiation": (
        [ASKED[0], b"R\n", ASKED[1], ASKED[2]],
        ["-client_renegotiation"],
        ["-tls1_2"],
        lambda found: found.row["tls_renegotiations"] == 1,
    ),
    "hello retry request": (
        [ASKED[0], ASKED[1], ASKED[2]],
        ["-groups", "P-384"],
        ["-tls1_3", "-groups", "X25519:P-384"],
        lambda _: True,
    ),
    "AES-CCM": _with_suite("-ciphersuites", "TLS_AES_128_CCM_SHA256", "TLS_AES_128_CCM_SHA256"),
    "AES-CCM-8": _with_suite("-ciphersuites", "TLS_AES_128_CCM_8_SHA256", "TLS_AES_128_CCM_8_SHA256"),
    "AES-CCM in TLS 1.2": _with_suite("-cipher", "AES256-CCM", "TLS_RSA_WITH_AES_256_CCM"),
    "AES-CCM-8 in TLS 1.2": _with_suite(
        "-cipher", "DHE-RSA-AES128-CCM8:@SECLEVEL=0", "TLS_DHE_RSA_WITH_AES_128_CCM_8"
    ),
    "MAC before encryption": (
        [ASKED[0], ASKED[1], ASKED[2]],
        ["-tls1_2", "-cipher", "AES128-SHA256"],
        ["-tls1_2", "-cipher", "AES128-SHA256", "-no_etm"],
        lambda found: found.row["tls_cipher"] == "TLS_RSA_WITH_AES_128_CBC_SHA256",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.slow
def test_what_openssl_can_do(name: str, tmp_path: Path) -> None:
    said, server, client, right = CASES[name]
    found = understood(tmp_path, spoken(tmp_path, said, server, client))
    check(found, 3)
    assert right(found)


def test_early_data(tmp_path: Path) -> None:
    """Sent before the server hello: read when the server took it, given with the rest of the stream."""
    (tmp_path / "early").write_bytes(ASKED[0])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    common = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    server = subprocess.Popen(
        [
            "openssl",
            "s_server",
            "-accept",
            f"127.0.0.1:{port}",
            "-cert",
            certificate(),
            "-key",
            certificate(),
            "-early_data",
            "-tls1_3",
        ],
        stdin=subprocess.PIPE,
        **common,
    )
    try:
        for options in (["-sess_out"], ["-early_data", tmp_path / "early", "-sess_in"]):
            relay = Relay(port)
            client = subprocess.Popen(
                [
                    "openssl",
                    "s_client",
                    "-connect",
                    f"127.0.0.1:{relay.port}",
                    "-tls1_3",
                    "-keylogfile",
                    tmp_path / "keylog",
                    *options,
                    tmp_path / "session",
                ],
                stdin=subprocess.PIPE,
                **common,
            )
            relay.wait_for(2)
            assert client.stdin is not None
            client.stdin.write(ASKED[1])
            client.stdin.close()
            client.wait(PATIENCE_S)
            relay.wait()
    finally:
        server.kill()
        server.wait()
    found = understood(tmp_path, relay.flights)
    check(found, 2)
    assert found.row["tls_resumed"] is True
