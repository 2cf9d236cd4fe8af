"""A lease keeps a second run away from a checkpoint at a URI, where nothing can be locked.

    <checkpoint>/owner.json    who uses it: a random token, the machine and the process

The owner writes the file again every RENEW_S. A run that finds one of another owner waits until it was not
renewed for LEASE_S. If its process was on this machine and is gone, nobody renews it, and it need not wait.
The owner looks before each batch whether the lease is still its own.
"""

import json
import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from kdissect.capture.storage_folder import StorageFolder

OWNER = "owner.json"
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
        self._token = secrets.token_hex(8)
        self._renewals = 0
        self._writing = threading.Lock()  # else the lease may be looked for while it is replaced
        self._end = threading.Event()
        _wait_until_free(folder, lease_s)
        self._write()
        self._thread = threading.Thread(target=self._renew, args=(lease_s,), name="lease", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raise LeaseError if another run has taken the lease, OSError."""
        with self._writing:
            found = _read(self._folder)
        if found is None or found.get("token") != self._token:
            raise LeaseError

    def close(self) -> None:
        """End the lease."""
        self._end.set()
        self._thread.join()
        with suppress(OSError, LeaseError):
            self.check()
            self._folder.remove(OWNER)

    def _write(self) -> None:
        self._renewals += 1
        owner = {
            "token": self._token,
            "machine": socket.gethostname(),
            "process": os.getpid(),
            "renewals": self._renewals,
        }
        with self._writing:
            self._folder.write(OWNER, json.dumps(owner).encode())

    def _renew(self, lease_s: float) -> None:
        while not self._end.wait(lease_s / (LEASE_S / RENEW_S)):
            with suppress(OSError, LeaseError):
                self.check()
                self._write()


class LeaseError(Exception):
    """Another run uses the checkpoint."""


def _wait_until_free(folder: StorageFolder, lease_s: float) -> None:
    first = _seen(folder)
    if first is None or not _may_live(first):
        return
    until = time.monotonic() + lease_s
    while time.monotonic() < until:
        time.sleep(min(POLL_S, lease_s))
        if (found := _seen(folder)) is None:
            return
        if found != first:
            raise LeaseError


def _seen(folder: StorageFolder) -> dict[str, Any] | None:
    """Return what an owner has written, also if it is writing."""
    if (found := _read(folder)) is None:
        time.sleep(REPLACING_S)
        found = _read(folder)
    return found


def _read(folder: StorageFolder) -> dict[str, Any] | None:
    """Return what the owner has written; None without one, nothing of a file that is half written."""
    with suppress(FileNotFoundError):
        try:
            found = json.loads(folder.read(OWNER))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}
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
