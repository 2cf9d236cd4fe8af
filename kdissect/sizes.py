"""Sizes in bytes as people write them: 33554432, 32m, 1G."""

import re

UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def size(text: str) -> int:
    """Read a size of one byte or more; k, m and g are powers of 1024. Raises ValueError.

    >>> size("32m"), size("1Gb")
    (33554432, 1073741824)
    """
    said = re.fullmatch(r"([1-9]\d{0,12})([kmg]?)b?", text.lower())
    if said is None:
        raise ValueError(f"{text!r} is no size; 33554432 and 32m are")
    return int(said[1]) * UNITS[said[2]]
