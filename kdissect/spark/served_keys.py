"""The secrets of a key log on their way to the workers of a local run: through a socket, never through Spark.

Data that travels with tasks lies in Spark's memory as blocks of broadcasts, may be spilled to its disk,
and is served at its ports. Workers of a local run are processes of the same user on the same machine, so they
fetch the secrets themselves, from a socket (AF_UNIX) in the directory of the run that only its user may
enter. Tasks carry the name of that socket.

On a cluster the secrets go with the tasks: there is no narrower way that all kinds of clusters have.
"""

import pickle
import socket
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from kdissect.streams.tls.keylog import KeyLog


class ServedKeys(KeyLog):
    """A key log that is pickled as the name of the socket at which a `KeyServer` serves it."""

    __slots__ = ("_address",)

    def __init__(self, keys: KeyLog, address: str) -> None:
        super().__init__(*keys.contents())
        self._address = address

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how a worker gets the key log."""
        return fetch_keys, (self._address,)


class KeyServer:
    """Serves a key log at a socket until `end`. The directory of the socket keeps other users out."""

    def __init__(self, keys: KeyLog, address: Path) -> None:
        self.keys = ServedKeys(keys, str(address))
        self._content = pickle.dumps(keys.contents(), pickle.HIGHEST_PROTOCOL)
        self._listener = socket.socket(socket.AF_UNIX)  # noqa: TID251 - between processes of one run
        self._listener.bind(str(address))
        self._listener.listen()
        threading.Thread(target=self._serve, name="key-server", daemon=True).start()

    def end(self) -> None:
        """Serve nobody any more."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which close alone does not
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # ended
            with connection, suppress(OSError):  # a worker that was killed
                connection.sendall(self._content)


@lru_cache(maxsize=4)  # one for each run over captures in this process, which serves many tasks
def fetch_keys(address: str) -> KeyLog:
    """Return the key log that is served at a socket. Raise OSError if the run has ended."""
    with socket.socket(socket.AF_UNIX) as connection:  # noqa: TID251 - between processes of one run
        connection.connect(address)
        with connection.makefile("rb") as stream:
            # Only this user can have made the socket, or can reach it.
            return KeyLog(*pickle.load(stream))  # noqa: S301
