"""The list of messages: the loop for many writes what the plain way does, and no unknown program is lost."""

import numpy as np
import pytest

from kdissect.jit.rows import Records, array_of, integers_of, new_table
from kdissect.protocol.columnar.program_cache import NOT_COMPILED, ProgramCache
from kdissect.streams.flow_state import REQUEST_SIDE, RESPONSE_SIDE, ExchangeRow
from kdissect.tables import message_list
from kdissect.tables.message_list import list_messages, plain_list


def any_exchanges(count: int) -> Records:
    """Return exchanges whose API keys and versions may be any, also none that Kafka has."""
    rng = np.random.default_rng(count)
    exchanges = array_of(new_table(ExchangeRow, count))
    integers_of(exchanges)[:] = rng.integers(0, 1 << 30, integers_of(exchanges).shape)
    exchanges["api_key"] = rng.integers(-3, 140, count)
    exchanges["api_version"] = rng.integers(-2, 70, count)
    exchanges["api_key"][:2], exchanges["api_version"][:2] = 1 << 15 - 1, -(1 << 15)
    return exchanges


@pytest.mark.parametrize("side", [REQUEST_SIDE, RESPONSE_SIDE])
def test_many_messages_are_listed_as_few_are(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exchanges, programs = any_exchanges(3000), ProgramCache()
    rows = np.flatnonzero(np.arange(len(exchanges)) % 3 > 0)
    monkeypatch.setattr(message_list, "are_many", lambda _rows: True)
    monkeypatch.setattr(message_list, "library", lambda: programs)
    for _ in range(2):  # the first time the loop finds that programs are missing
        written, plain = list_messages(exchanges, side, rows), plain_list(exchanges, side, rows, programs)
        assert (written.entries == plain.entries).all()
        assert (written.spans == plain.spans).all()
        assert written.spans.dtype == plain.spans.dtype == np.int64
    assert (plain.entries >= 0).any()
    assert (plain.entries < 0).any()
    assert not (plain.entries == NOT_COMPILED).any()


def test_the_loop_compiles() -> None:
    message_list.call_all()
