"""Keep the compiled programs of this process: each (API, version, side) is compiled when it is first met.

All programs stand one after another in one table, so that a walk needs nothing else. A number in `entries`
says where a program starts, or why there is none.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.columnar.assembler import Program, with_blocks
from kdissect.protocol.columnar.program import compile_message
from kdissect.protocol.columnar.vm_state import UNKNOWN_KEY, UNKNOWN_VERSION
from kdissect.protocol.schema.registry import APIS

Compiler: TypeAlias = Callable[[int, int, bool], Program]
"""From API key, version, and whether it is a response, to a program."""

NOT_COMPILED = -100
KEYS, VERSIONS = 128, 64  # more than there are: what lies outside is not known


class ProgramCache:
    """The programs compiled so far.

    `firsts` has the first row of each, by side (1: response), key and version; NOT_COMPILED stands for one
    that nobody wanted yet, minus a `Reason` for one that does not exist.
    """

    def __init__(self, compile_one: Compiler = compile_message) -> None:
        self._compile_one = compile_one
        self.table: NDArray[np.int64] = np.zeros((0, 5), np.int64)
        self.paths: list[str] = []
        self.firsts = np.full((2, KEYS, VERSIONS), -UNKNOWN_KEY, np.int64)
        for key, api in APIS.items():
            self.firsts[:, key] = -UNKNOWN_VERSION
            self.firsts[:, key, api.versions.start : api.versions.stop] = NOT_COMPILED
        # A broker may answer in version 0, whatever it was asked (KIP-511).
        self.firsts[1, ApiKey.API_VERSIONS] = NOT_COMPILED

    def entries(
        self, api_key: NDArray[np.int16], api_version: NDArray[np.int16], response: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the first row of every message's program, or minus the Reason why it has none."""
        direction = response.astype(np.int64)
        key, version = api_key.astype(np.int64), api_version.astype(np.int64)
        known_key = (key >= 0) & (key < KEYS)
        known_version = (version >= 0) & (version < VERSIONS)
        places = (
            direction,
            np.where(known_key, key, KEYS - 1),
            np.where(known_version, version, VERSIONS - 1),
        )
        entries = self.firsts[places]
        missing = entries == NOT_COMPILED
        if missing.any():
            missing_programs = np.unique(np.stack([part[missing] for part in places], axis=1), axis=0)
            self._compile(missing_programs.tolist())
            entries = self.firsts[places]
        return entries

    def _compile(self, missing_programs: list[list[int]]) -> None:
        tables, rows = [self.table], len(self.table)
        for direction, key, version in missing_programs:
            program = with_blocks(self._compile_one(key, version, bool(direction)))
            self.firsts[direction, key, version] = rows
            tables.append(program.table)
            rows += len(program.table)
            self.paths += program.paths
        self.table = np.concatenate(tables)


@cache
def library() -> ProgramCache:
    """Return the programs of this process."""
    return ProgramCache()
