"""The signal to stop, and why, for all processes of a run: the first one that gives it is heard by all.

It is a page of memory that the processes share, since nothing else reaches a process that is busy sending
without waiting for it.
"""

import mmap

SIZE = 1024  # bytes, with two for the length of the text


class StopSignal:
    """To be made before the processes are forked."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)  # length (2 bytes), then the reason in UTF-8

    def give(self, reason: str) -> None:
        """Have all processes stop. The first reason stays."""
        if not self.reason:
            text = reason.encode()[: SIZE - 2]
            self._memory[2 : 2 + len(text)] = text
            self._memory[:2] = len(text).to_bytes(2, "big")

    @property
    def reason(self) -> str:
        """Why all processes must stop; "" if they need not."""
        memory = self._memory
        if memory[:2] == b"\0\0":
            return ""
        return memory[2 : 2 + int.from_bytes(memory[:2], "big")].decode(errors="replace")
