"""Programs of one process: compiled when they are first met, one after another in one table."""

import numpy as np
import pytest

from kdissect.protocol.columnar.assembler import with_blocks
from kdissect.protocol.columnar.program import compile_message
from kdissect.protocol.columnar.program_cache import KEYS, VERSIONS, ProgramCache, library
from kdissect.protocol.columnar.vm_state import Reason
from kdissect.protocol.schema.registry import APIS

Message = tuple[int, int, bool]  # API key, version, whether it is a response


def entries(cache: ProgramCache, *messages: Message) -> list[int]:
    keys, versions, responses = zip(*messages, strict=True)
    return cache.entries(
        np.array(keys, np.int16), np.array(versions, np.int16), np.array(responses, np.bool_)
    ).tolist()


def test_a_program_is_compiled_once_and_stays_where_it_is() -> None:
    cache = ProgramCache()
    assert len(cache.table) == 0
    (produce,) = entries(cache, (0, 9, False))
    rows = len(cache.table)
    assert entries(cache, (0, 9, False), (0, 9, False)) == [produce, produce]
    assert len(cache.table) == len(cache.paths) == rows
    assert entries(cache, (1, 4, True), (0, 9, False)) == [rows, produce]


def test_an_entry_is_the_first_row_of_the_program_of_that_message() -> None:
    cache = ProgramCache()
    messages = [(3, 1, False), (3, 1, True), (18, 3, True), (3, 2, True)]
    for message, row in zip(messages, entries(cache, *messages), strict=True):
        program = with_blocks(compile_message(*message))
        assert cache.table[row : row + len(program.table)].tolist() == program.table.tolist()
        assert tuple(cache.paths[row : row + len(program.paths)]) == program.paths


@pytest.mark.parametrize(
    ("key", "version", "reason"),
    [
        (len(APIS), 0, Reason.UNKNOWN_KEY),
        (-1, 0, Reason.UNKNOWN_KEY),
        (KEYS, 0, Reason.UNKNOWN_KEY),
        (32767, 32767, Reason.UNKNOWN_KEY),
        (0, APIS[0].versions[-1] + 1, Reason.UNKNOWN_VERSION),
        (0, -1, Reason.UNKNOWN_VERSION),
        (0, VERSIONS, Reason.UNKNOWN_VERSION),
        (0, -32768, Reason.UNKNOWN_VERSION),
    ],
)
def test_what_is_not_known_is_minus_the_reason(key: int, version: int, reason: Reason) -> None:
    cache = ProgramCache()
    assert entries(cache, (key, version, False), (key, version, True)) == [-reason, -reason]
    assert len(cache.table) == 0


def test_there_is_room_for_all_keys_and_versions() -> None:
    assert max(APIS) < KEYS - 1  # the last ones stand for all that lie outside
    assert max(api.versions[-1] for api in APIS.values()) < VERSIONS - 1


def test_one_process_has_one_cache() -> None:
    assert library() is library()
