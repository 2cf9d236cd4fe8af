"""Numbers of APIs and errors outside the protocol."""

import pytest

from tests.structure.conftest import Make
from tests.structure.protocol_numbers import protocol_numbers
from tests.structure.rules import check

PROTOCOL = {
    "kdissect/protocol/messages/1_fetch.txt": "",
    "kdissect/protocol/messages/25_add_offsets_to_txn.txt": "",
    "kdissect/protocol/api_keys.py": "from enum import IntEnum\n\nclass ApiKey(IntEnum):\n    FETCH = 1\n",
    "kdissect/protocol/error_codes.py": "class ErrorCode:\n    NOT_COORDINATOR = 16\n",
    "kdissect/protocol/schema.py": "def schema(kind, api_key, version=None):\n    return api_key == 1\n",
}


@pytest.mark.parametrize(
    "line",
    [
        "found = request.api_key == 1",
        "found = 0 != api_key",
        "found = key in (1, 2)",
        "found = row['error_code'] == 16",
        "found = columns.error not in frozenset({14, 16})",
        "found = state.waiting[node, API_KEY] == 18",
        "found = int(api_key) == 3",
        "found = first_error == 16",
        "found = {1: 'fetch', 2: 'list'}.get(api_key)",
        "found = {1: 'fetch', 2: 'list'}[api_key]",
        "found = schema('request', 3)",
        "found = encode(api_key=3)",
        "found = {'error_code': 16}",
        "OWN = frozenset({8})",
        "FETCH = 1",
        "ADD_OFFSETS = 25",
        "OTHER, NOT_COORDINATOR = 7, 16",
        "class Own:\n    FETCH = 1",
        "match api_key:\n    case 1 | 2:  # here\n        pass",
        "NAMES = {1: 'fetch'}\nfound = NAMES[api_key]",
    ],
)
def test_a_number(make: Make, line: str) -> None:
    text = "\n" + (line if "# here" in line else f"{line}  # here")
    here = text[: text.index("# here")].count("\n") + 1
    (finding,) = protocol_numbers(make({**PROTOCOL, "kdissect/a.py": text}))
    assert (finding.path, finding.line, finding.rule) == ("kdissect/a.py", here, "protocol-number")


@pytest.mark.parametrize(
    "line",
    [
        "found = request.api_key == ApiKey.FETCH",
        "found = request.api_key >= 0",
        "found = api_key == -1",
        "found = error_code == 0",
        "found = row['error_code'] in (0, -1)",
        "found = {'error_code': 0}",
        "found = version == 3",
        "found = GROUP_KEY == 3",
        "found = schema('request', ApiKey.FETCH, 3)",
        "found = encode(version=3)",
        "kinds = kinds - {-1}",
        "MOST_FETCHES = 1",
        "OFFSETS = 25",
        "FETCH = 8",
        "NAMES = {1: 'gzip'}\nfound = NAMES[codec]",
    ],
)
def test_no_number(make: Make, line: str) -> None:
    assert not list(protocol_numbers(make({**PROTOCOL, "kdissect/a.py": line})))


def test_functions_that_agree_on_no_parameter(make: Make) -> None:
    files = {**PROTOCOL, "kdissect/a.py": "def schema(kind, size): ...\n\nfound = schema('request', 3)\n"}
    assert not list(protocol_numbers(make(files)))


@pytest.mark.parametrize("package", ["protocol", "capture", "streams/tls"])
def test_packages_with_numbers_of_their_own(make: Make, package: str) -> None:
    assert not list(
        protocol_numbers(make({**PROTOCOL, f"kdissect/{package}/a.py": "found = key in {1, 2}\n"}))
    )


def test_a_listed_line(make: Make) -> None:
    listed = (
        '[[protocol-number]]\nname = "kdissect/a.py: found = code == 3"\nreason = "It is an exit code."\n'
    )
    files = {
        **PROTOCOL,
        "kdissect/a.py": "if True:\n    found = code == 3\n",
        "tests/structure/exceptions.toml": listed,
    }
    assert not check(make(files), ["protocol-number"])
