"""A lease keeps a second run away from a checkpoint at a URI, where nothing can be locked.

    <checkpoint>/owner-000007-5f1d….json    the run that uses it: a random token, the machine and the process

Each run has a file of its own, with a higher number than those before it. The run of the highest number owns
the checkpoint. It writes its file again every RENEW_S, and no other one: a run that stood still and goes on
when it was taken for dead displaces nobody, and learns that it is the owner no more. A run that finds a file
of another owner waits until it was not renewed for LEASE_S. If its process was on this machine and is gone,
nobody renews it, and it need not wait. The owner looks before each batch whether the lease is still its own.
"""

import json
import os
import re
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from kdissect.capture.storage_folder import StorageFolder

OWNER = re.compile(r"owner-(\d{6,})-[0-9a-f]+\.json")
RENEW_S = 10.0
LEASE_S = 3 * RENEW_S
POLL_S = 0.5
REPLACING_S = 0.2
"""Time after which a file that is not there is looked for again. HDFS replaces one by removing the old one
first."""


class CheckpointLease:
    """See the module's text. It is held from its making until `close`."""

    def __init__(self, folder: StorageFolder, lease_s: float = LEASE_S) -> None:
        """Wait until nobody uses the checkpoint. Raise LeaseError if somebody does, OSError."""
        self._folder = folder
        self._renewals = 0
        self._writing = threading.Lock()  # else the lease may be looked for while it is replaced
        self._end = threading.Event()
        _wait_until_free(folder, lease_s)
        before = _owner_files(folder)
        number = 1 + max(map(_number, before), default=0)
        self._name = owner_file(number, secrets.token_hex(8))
        self._write()
        for name in before:
            folder.remove(name)
        self._thread = threading.Thread(target=self._renew, args=(lease_s,), name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise LeaseError if another run has taken the lease, OSError."""
        with self._writing:
            newest = _newest(self._folder)
        if newest != self._name:
            raise LeaseError

    def close(self) -> None:
        """End the lease."""
        self._end.set()
        self._thread.join()
        with suppress(OSError):
            self._folder.remove(self._name)

    def _write(self) -> None:
        self._renewals += 1
        owner = {"machine": socket.gethostname(), "process": os.getpid(), "renewals": self._renewals}
        with self._writing:
            self._folder.write(self._name, json.dumps(owner).encode())

    def _renew(self, lease_s: float) -> None:
        while not self._end.wait(lease_s / (LEASE_S / RENEW_S)):
            with suppress(OSError, LeaseError):
                self.check()
                self._write()


class LeaseError(Exception):
    """Another run uses the checkpoint."""


def owner_file(number: int, token: str) -> str:
    """Return the name of the file of an owner."""
    return f"owner-{number:06}-{token}.json"


def _number(name: str) -> int:
    found = OWNER.fullmatch(name)
    return int(found[1]) if found else 0


def _owner_files(folder: StorageFolder) -> list[str]:
    return [file.name for file in folder.files() if OWNER.fullmatch(file.name)]


def _newest(folder: StorageFolder) -> str | None:
    """Return the name of the owner's file; None without one. Tokens decide between equal numbers."""
    return max(_owner_files(folder), key=lambda name: (_number(name), name), default=None)


def _wait_until_free(folder: StorageFolder, lease_s: float) -> None:
    first = _seen(folder)
    if first is None or not _may_live(first[1]):
        return
    until = time.monotonic() + lease_s
    while time.monotonic() < until:
        time.sleep(min(POLL_S, lease_s))
        if (found := _seen(folder)) is None:
            return
        if found != first:
            raise LeaseError


def _seen(folder: StorageFolder) -> tuple[str, dict[str, Any]] | None:
    """Return the file of the owner and what it has written, also if it is writing."""
    if (found := _read(folder)) is None:
        time.sleep(REPLACING_S)
        found = _read(folder)
    return found


def _read(folder: StorageFolder) -> tuple[str, dict[str, Any]] | None:
    """Return the file of the owner and what is in it, nothing if it is half written; None without one."""
    if (name := _newest(folder)) is None:
        return None
    with suppress(FileNotFoundError):
        try:
            found = json.loads(folder.read(name))
        except ValueError:
            return name, {}
        return name, found if isinstance(found, dict) else {}
    return None


def _may_live(owner: dict[str, Any]) -> bool:
    """Return False if the process of the owner was on this machine, and is gone."""
    process = owner.get("process")
    if owner.get("machine") != socket.gethostname() or not isinstance(process, int) or process <= 0:
        return True
    with suppress(ProcessLookupError, OverflowError):
        try:
            os.kill(process, 0)
        except PermissionError:
            return True
        return True
    return False
