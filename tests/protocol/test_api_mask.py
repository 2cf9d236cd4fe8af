"""The table of API keys says what `np.isin` says."""

import numpy as np
import pytest

from kdissect.protocol.api_keys import FETCHES, ApiKey
from kdissect.protocol.api_mask import in_apis

ALL_KEYS = np.arange(-(1 << 15), 1 << 15)


@pytest.mark.parametrize("apis", [(), (0,), (-1, 7), tuple(FETCHES), [ApiKey.PRODUCE, 32767, -32768]])
@pytest.mark.parametrize("kind", [np.int16, np.int64])
def test_every_key_is_found_as_by_search(apis: tuple[int, ...], kind: type) -> None:
    keys = ALL_KEYS.astype(kind)
    assert (in_apis(keys, apis) == np.isin(keys, list(apis))).all()


def test_no_keys_have_an_empty_mask() -> None:
    assert in_apis(np.zeros(0, np.int64), FETCHES).tolist() == []
