"""A decrypted connection is one row: TCP's figures of the records, Kafka's figures of the plaintext."""

from pathlib import Path

import pytest

from kdissect.streams.flow_state import KAFKA, TLS, TLS_PASSED
from kdissect.streams.tls.connection_merge import with_tls
from kdissect.streams.tls.decrypt_stage import new_flow_processor
from kdissect.streams.tls.keylog import NO_KEYS
from kdissect.streams.tls.tls_session import Decryption
from tests.helpers.followed import VERSIONS
from tests.helpers.tls_ends import Kind
from tests.streams.tls.test_decrypt_stage import V13, talk, wire_of


@pytest.mark.parametrize("with_keys", [True, False])
def test_requests_are_counted_of_the_plaintext_and_bytes_of_the_records(
    tmp_path: Path, with_keys: bool
) -> None:
    ends, keys = talk(Kind(V13), tmp_path)
    splits, pieces = wire_of(ends, tmp_path).splits()
    processor = new_flow_processor(splits, VERSIONS, keys if with_keys else NO_KEYS)
    for piece in pieces:
        for _ in processor.feed(piece):
            pass
    for _ in processor.close():
        pass
    connections, directions, facts = with_tls(processor)
    sent = [sum(len(flight) for side, flight in ends.flights if side == sender) for sender in (0, 1)]
    assert directions["payload_bytes"].tolist() == sent
    assert facts.keys() == {0}
    if with_keys:
        assert connections["protocol"].tolist() == [KAFKA]
        assert (connections["requests"][0], connections["responses"][0]) == (12, 12)
        assert facts[0].decryption == Decryption.WHOLE
    else:
        assert connections["protocol"][0] in (TLS, TLS_PASSED)
        assert connections["requests"][0] == 0
        assert facts[0].undecrypted > 0
