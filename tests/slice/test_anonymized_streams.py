"""All messages of chosen connections are rewritten, also those that were not chosen."""

from pathlib import Path

from kdissect.library.captured_exchanges import read
from tests.helpers.handmade_capture import write_capture
from tests.slice.sliced_capture import make_slice
from tests.slice.test_slice_writer import talk


def test_messages_that_were_not_chosen_are_rewritten_too(tmp_path: Path) -> None:
    source = write_capture(tmp_path / "talk.pcap", talk(9))
    path = make_slice(tmp_path, source, "--since", "+9ms", "--until", "+10ms", "--anonymize")
    shown = [(one.api_name, one.correlation_id, one.latency_ns, one.errors) for one in read(str(path))]
    assert shown == [
        (one.api_name, one.correlation_id, one.latency_ns, one.errors) for one in read(str(source))
    ]
    assert {one.groups for one in read(str(path))} != {("g",)}
    assert len(shown) == 9
