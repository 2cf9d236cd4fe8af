"""A capture in memory, whose reads return fewer bytes than wanted, as reads of pipes and objects do."""


class MemoryStorage:
    """The bytes of a capture; `claimed` is its size as the index knows it, `most` the bytes of one read."""

    descriptor = None

    def __init__(self, data: bytes, claimed: int | None = None, most: int = 1 << 30) -> None:
        self._data, self._most = data, most
        self.size = len(data) if claimed is None else claimed

    def read_into(self, view: memoryview, offset: int) -> int:
        """Fill the view, or a part of it. Return the number of bytes."""
        part = self._data[offset : offset + min(len(view), self._most)]
        view[: len(part)] = part
        return len(part)

    def read(self, length: int, offset: int) -> bytes:
        """Return up to `length` bytes."""
        return self._data[offset : offset + length]

    def close(self) -> None:
        """Close nothing."""
