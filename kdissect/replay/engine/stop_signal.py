"""The word that all processes of a run stop, and why: whoever gives it first is heard by all."""

import mmap

ROOM = 1024


class StopSignal:
    """A piece of memory that processes share; to be made before they part."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, ROOM)  # length, then text

    def give(self, why: str) -> None:
        """Tell all to stop. A word that was given stays."""
        if not self.given:
            said = why.encode()[: ROOM - 2]
            self._memory[2 : 2 + len(said)] = said
            self._memory[:2] = len(said).to_bytes(2, "big")

    @property
    def given(self) -> str:
        """Why all must stop; nothing if they need not."""
        memory = self._memory
        if memory[:2] == b"\0\0":
            return ""
        return memory[2 : 2 + int.from_bytes(memory[:2], "big")].decode(errors="replace")
