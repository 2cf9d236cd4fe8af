"""`kdissect schema --version 0.7`: the requests of Kafka 0.7, and the fields of one of them."""

import pytest

from kdissect.dump.kafka07_schema_text import find_request, request_fields, request_table
from kdissect.protocol.kafka07.message_codec import RequestType

MULTI_FETCH = """\
MultiFetch  type 2 of Kafka 0.7, which had no versions

request, after its int16 type
  requests     []                  counted in an int16
    topic      string  @topic
    partition  int32   @partition
    offset     int64   @offset
    max_size   int32   @max_bytes

response, without a header
  error_code    int16    @error
  responses     []               one for each request, in their order, to the end of the frame
    size        int32            counts error_code and messages
    error_code  int16    @error
    messages    records          as long as size says
"""


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("2", RequestType.MULTI_FETCH),
        ("multifetch", RequestType.MULTI_FETCH),
        ("Offsets", RequestType.OFFSETS),
        ("7", None),
    ],
)
def test_a_request_goes_by_its_number_or_name(text: str, kind: RequestType | None) -> None:
    assert find_request(text) is kind


def test_the_table_says_which_requests_are_answered() -> None:
    lines = request_table()
    assert [line.split() for line in lines[1:6]] == [
        ["0", "Produce", "no"],
        ["1", "Fetch", "yes"],
        ["2", "MultiFetch", "yes"],
        ["3", "MultiProduce", "no"],
        ["4", "Offsets", "yes"],
    ]
    assert "5 types of requests" in lines[-1]


def test_the_fields_of_a_request() -> None:
    assert "\n".join(request_fields(RequestType.MULTI_FETCH)) + "\n" == MULTI_FETCH
    assert request_fields(RequestType.MULTI_PRODUCE)[-1].strip() == "(none: the broker does not answer)"


@pytest.mark.parametrize("kind", RequestType)
def test_every_request_can_be_shown(kind: RequestType) -> None:
    assert request_fields(kind)[0].endswith(f"type {int(kind)} of Kafka 0.7, which had no versions")
