"""The columnar reader against the plain codec: every API and version, on good, cut and changed bytes.

The same tests run a second time with the compiler off, and a third time with every index checked.
"""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from kdissect.cache_directory import cache_home
from kdissect.protocol.api_keys import ApiKey
from kdissect.protocol.codec.messages import (
    DecodedMessage,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from kdissect.protocol.columnar.batch_reader import (
    Columns,
    Table,
    read,
)
from kdissect.protocol.columnar.registers import (
    BROKER,
    MESSAGE,
    ROW,
    Register,
)
from kdissect.protocol.columnar.vm_state import Reason
from kdissect.protocol.records.batch_summary import (
    SUMMARY,
    RecordSetFault,
    summary_of,
)
from kdissect.protocol.schema.registry import APIS
from tests.helpers.kafka_python_records import record_set
from tests.helpers.random_messages import random_message
from tests.protocol.columnar.expected import Expected, expect

COMPILED = os.environ.get("KDISSECT_JIT") != "0"
CHECKED = os.environ.get("NUMBA_BOUNDSCHECK") == "1"
ROUNDS = 3 if COMPILED else 1


class Frame(NamedTuple):
    """One message, and what it is."""

    data: bytes
    key: int
    version: int
    response: bool


def make(rng: Random, key: int, version: int, response: bool) -> Frame:
    """Make a random message with its header."""
    correlation = rng.randrange(-(2**31), 2**31)
    api = APIS[key]
    if response:
        body = random_message(rng, api.response, version)
        return Frame(encode_response(key, version, {"correlation_id": correlation}, body), key, version, True)
    header = {"request_api_key": key, "request_api_version": version, "correlation_id": correlation}
    if not (key == 7 and version == 0):
        header["client_id"] = rng.choice(("me", "", None))
    body = random_message(rng, api.request, version)
    return Frame(encode_request(header, body), key, version, False)


def everything(rng: Random) -> list[Frame]:
    """Make one message of every API, version and side."""
    return [
        make(rng, key, version, response)
        for key, api in APIS.items()
        for version in api.versions
        for response in (False, True)
    ]


def read_frames(frames: list[Frame], lost: list[int] | None = None) -> tuple[Columns, bytes]:
    """Read frames laid end to end; of each the capture has lost that many bytes at the end."""
    arena = b"".join(frame.data for frame in frames)
    edges = np.cumsum([0, *(len(frame.data) for frame in frames)])
    columns = read(
        np.frombuffer(arena, np.uint8),
        edges[:-1],
        edges[1:] - np.array(lost or [0] * len(frames)),
        edges[1:],
        np.array([frame.key for frame in frames], np.int16),
        np.array([frame.version for frame in frames], np.int16),
        np.array([frame.response for frame in frames]),
    )
    return columns, arena


def decode(frame: Frame) -> DecodedMessage:
    """Decode a frame by the plain codec."""
    if frame.response:
        return decode_response(frame.data, frame.key, frame.version)
    return decode_request(frame.data)


def values_of(table: Table, registers: tuple[Register, ...], arena: bytes) -> list[dict[str, Any]]:
    """Return the values of every row, by role."""
    rows: list[dict[str, Any]] = [{} for _ in range(len(table))]
    for register in registers:
        if register.kind == "integer":
            integers = table.integers(register.column)
            for at in np.flatnonzero(integers.present).tolist():
                rows[at][register.role] = int(integers.values[at])
        else:
            spans = table.spans(register.column)
            for at in np.flatnonzero(spans.start >= 0).tolist():
                start, length = int(spans.start[at]), int(spans.length[at])
                rows[at][register.role] = arena[start : start + length]
    return rows


def by_message(table: Table, rows: list[dict[str, Any]], count: int) -> list[list[dict[str, Any]]]:
    """Sort rows to the messages they belong to."""
    sorted_rows: list[list[dict[str, Any]]] = [[] for _ in range(count)]
    for owner, row in zip(table.message.tolist(), rows, strict=True):
        sorted_rows[owner].append(row)
    return sorted_rows


def results(frames: list[Frame], columns: Columns, arena: bytes) -> list[Expected]:
    """Return what the columns say of every message, in the shape of what is expected."""
    count = len(frames)
    messages = values_of(columns.messages, MESSAGE, arena)
    rows = by_message(columns.partitions, values_of(columns.partitions, ROW, arena), count)
    nodes = by_message(columns.nodes, values_of(columns.nodes, BROKER, arena), count)
    return [Expected(messages[at], [], rows[at], nodes[at]) for at in range(count)]


def plain_path(path: str) -> str:
    """Leave the indexes out of a field path."""
    return re.sub(r"\[\d+\]", "", path)


def assert_agreement(frames: list[Frame]) -> None:
    """Check the columns of frames against the plain codec.

    Values where all is well, else the place of the fault.
    """
    columns, arena = read_frames(frames)
    found = results(frames, columns, arena)
    for at, frame in enumerate(frames):
        whole = decode(frame)
        text = columns.fault_text(at)
        assert (text is None) == (whole.fault is None), (frame, text, whole.fault)
        if whole.fault is not None:
            assert int(columns.fault_position[at]) == whole.fault.offset, (frame, text, whole.fault)
            path = (text or "").partition(" in ")[2].removeprefix("header.").removeprefix("header")
            assert path == plain_path(whole.fault.path), (frame, text, whole.fault)
            continue
        assert whole.version is not None
        assert whole.body is not None
        api = APIS[frame.key]
        message = api.response if frame.response else api.request
        wanted = expect(message, whole.version, whole.header, whole.body)
        named = {register.role: register.column for register in MESSAGE}
        assert {named[role]: value for role, value in found[at].message.items()} == wanted.message, frame
        assert found[at].rows == wanted.rows, frame
        nodes = {register.role: register.column for register in BROKER}
        assert [{nodes[role]: v for role, v in node.items()} for node in found[at].nodes] == wanted.nodes, (
            frame
        )
        wrong = [code for code in wanted.errors if code]
        assert columns.has_error[at] == bool(wanted.errors)
        assert columns.error_count[at] == len(wrong)
        assert columns.error_code[at] == (wrong[0] if wrong else 0)


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_agreement_on_good_messages(seed: int) -> None:
    assert_agreement(everything(Random(seed)))


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_agreement_on_messages_that_end_early_or_late(seed: int) -> None:
    rng = Random(100 + seed)
    frames = everything(rng)
    assert_agreement([frame._replace(data=frame.data[: rng.randrange(len(frame.data))]) for frame in frames])
    assert_agreement(
        [frame._replace(data=frame.data + rng.randbytes(rng.randrange(1, 4))) for frame in frames]
    )


@pytest.mark.parametrize("seed", range(4 * ROUNDS))
def test_agreement_on_changed_bytes(seed: int) -> None:
    rng = Random(200 + seed)
    frames = []
    for frame in everything(rng):
        data = bytearray(frame.data)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(4, len(data))  # the key and version of a request are what the reader is told
            data[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        frames.append(frame._replace(data=bytes(data)))
    assert_agreement(frames)


def test_what_stands_before_a_loss_is_kept() -> None:
    rng = Random(5)
    frames = everything(rng)
    lost = [rng.randrange(len(frame.data) + 1) for frame in frames]
    whole = results(frames, *read_frames(frames))
    columns, arena = read_frames(frames, lost)
    for at, cut in enumerate(results(frames, columns, arena)):
        reason = columns.fault_reason[at]
        assert reason == (Reason.CUT if lost[at] else Reason.NONE), (frames[at], lost[at])
        assert columns.fault_position[at] <= len(frames[at].data) - lost[at]
        assert cut.message.items() <= whole[at].message.items() or repeats_a_role(frames[at])
        assert cut.nodes == whole[at].nodes[: len(cut.nodes)]
        assert_rows_start(cut.rows, whole[at].rows, frames[at])


def repeats_a_role(frame: Frame) -> bool:
    """JoinGroup's response names the leader as a member before the member itself."""
    return (frame.key, frame.response) == (11, True)


def assert_rows_start(cut: list[dict[str, Any]], whole: list[dict[str, Any]], frame: Frame) -> None:
    """Check that rows are the first of all rows, the last of them perhaps in part."""
    if not cut:
        return
    assert cut[:-1] == whole[: len(cut) - 1]
    ignored = {
        "records",
        "producer_id",
        "producer_epoch",
    }  # a records field that is cut points at what there is
    if frame.key == ApiKey.SHARE_FETCH and not cut[-1].get("error"):
        ignored.add("error")  # that of acknowledgments stands behind that of the fetch
    last = {role: value for role, value in cut[-1].items() if role not in ignored}
    assert last.items() <= whole[len(cut) - 1].items()


def test_rows_do_not_depend_on_batches() -> None:
    frames = everything(Random(6))[:: 1 if COMPILED else 7]
    whole = results(frames, *read_frames(frames))
    one_by_one = [results([frame], *read_frames([frame]))[0] for frame in frames]
    assert one_by_one == whole


def test_rows_grow_with_what_is_read() -> None:
    topics = [
        {"name": f"topic-{at}", "partition_data": [{"index": n} for n in range(at)]} for at in range(90)
    ]
    body = {"acks": 1, "timeout_ms": 0, "topic_data": topics}
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "me"}
    frame = Frame(encode_request(header, body), 0, 9, False)
    columns, _ = read_frames([frame] * 3)
    assert len(columns.partitions) == 3 * (1 + sum(range(90)))
    assert columns.partitions.message.tolist() == sorted(columns.partitions.message.tolist())
    assert columns.partitions.integers("partition").values[-3:].tolist() == [86, 87, 88]


def test_unknown_apis_and_versions_are_left_alone() -> None:
    frames = [
        Frame(b"\0" * 30, *what) for what in ((500, 0, False), (-1, 0, True), (0, 99, False), (0, -1, True))
    ]
    columns, _ = read_frames(frames)
    assert [columns.fault_text(at) for at in range(4)] == [
        "API key not known",
        "API key not known",
        "API version not known",
        "API version not known",
    ]
    assert columns.fault_position.tolist() == [-1] * 4
    assert len(columns.partitions) == 0


def test_api_versions_falls_back_to_version_0() -> None:
    body = encode_response(18, 0, {"correlation_id": 9}, {"error_code": 35, "api_keys": []})
    columns, _ = read_frames([Frame(body, 18, version, True) for version in APIS[18].versions])
    assert not columns.fault_reason.any()
    assert columns.error_code.tolist() == [35] * len(APIS[18].versions)


@pytest.mark.parametrize("version", [APIS[18].versions[-1] + 1, 70, 32767])
def test_api_versions_of_a_version_that_is_not_known_falls_back_too(version: int) -> None:
    body = encode_response(18, 0, {"correlation_id": 9}, {"error_code": 35, "api_keys": []})
    good = encode_response(18, 3, {"correlation_id": 9}, {"error_code": 0, "api_keys": []})
    columns, _ = read_frames([Frame(data, 18, version, True) for data in (body, good, body[:5])])
    assert [columns.fault_text(at) for at in range(3)] == [
        None,
        "API version not known at byte 4",
        "API version not known at byte 4",
    ]
    assert (columns.error_code.tolist(), columns.has_error.tolist()) == ([35, 0, 0], [True, False, False])


@pytest.mark.parametrize("version", [2, 3, 9, 13])
def test_records_and_their_producers(version: int) -> None:
    batch = bytearray(record_set(2, 0))
    batch[43:53] = (77).to_bytes(8) + (3).to_bytes(2)
    sets = [bytes(batch), None, record_set(1, 1), bytes(batch) * 2, b"", record_set(0, 2) + record_set(2, 0)]
    partitions = [{"index": at, "records": records} for at, records in enumerate(sets)]
    named: dict[str, Any] = {"topic_id": bytes(range(16))} if version > 12 else {"name": "orders"}
    body = {"acks": 1, "timeout_ms": 0, "topic_data": [{**named, "partition_data": partitions}]}
    header = {"request_api_key": 0, "request_api_version": version, "correlation_id": 1, "client_id": "me"}
    frame = Frame(encode_request(header, body), 0, version, False)
    assert_agreement([frame, frame])
    columns, _ = read_frames([frame])
    assert columns.records["records"].tolist() == [3, -1, 3, 6, 0, 6]
    assert columns.records["codec"].tolist() == [0, -1, 1, 0, -1, 2]
    producers = columns.partitions.integers("producer_id")
    assert producers.present.tolist() == [True, False, False, True, False, False]
    assert producers.values[producers.present].tolist() == [77, 77]


def test_wrapped_records_that_cannot_be_counted() -> None:
    bad = bytearray(record_set(1, 1))
    bad[-9] ^= 0xFF
    partitions = [{"index": 0, "records": bytes(bad)}, {"index": 1, "records": record_set(0, 0)}]
    body = {"acks": 1, "timeout_ms": 0, "topic_data": [{"name": "orders", "partition_data": partitions}]}
    header = {"request_api_key": 0, "request_api_version": 2, "correlation_id": 1, "client_id": "me"}
    columns, _ = read_frames([Frame(encode_request(header, body), 0, 2, False)])
    assert columns.records["records"].tolist() == [-1, 3]
    assert columns.records["fault"].tolist() == [RecordSetFault.COMPRESSION, 0]


def test_no_messages() -> None:
    columns, _ = read_frames([])
    assert (len(columns.messages), len(columns.partitions), len(columns.nodes)) == (0, 0, 0)


def test_a_column_that_is_not_there() -> None:
    columns, _ = read_frames([])
    with pytest.raises(KeyError, match="no integer 'topic'"):
        columns.partitions.integers("topic")


def test_faults_name_the_field() -> None:
    body = {"acks": 1, "timeout_ms": 0, "topic_data": [{"name": "orders", "partition_data": [{"index": 7}]}]}
    header = {"request_api_key": 0, "request_api_version": 9, "correlation_id": 1, "client_id": "me"}
    data = encode_request(header, body)
    columns, _ = read_frames([Frame(data[:-5], 0, 9, False), Frame(data, 0, 9, False)], [0, 4])
    assert (
        columns.fault_text(0) == "count does not fit the bytes left at byte 28 in topic_data.partition_data"
    )
    assert (
        columns.fault_text(1)
        == "the rest of the frame is missing at byte 33 in topic_data.partition_data.records"
    )
    assert columns.partitions.integers("partition").present.tolist() == [False, True]


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="is the uncompiled run")
def test_everything_again_uncompiled() -> None:
    again(
        {"KDISSECT_JIT": "0"},
        (
            "columnar/batch_reader",
            "columnar/unread_records",
            "columnar/vm",
            "records/batch_summary",
            "records/crc32c",
            "integers",
        ),
    )


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED or CHECKED, reason="is such a run itself")
def test_everything_again_with_every_index_checked() -> None:
    """Kernels are kept by their sources alone, so those with checks need a cache of their own."""
    again(
        {"NUMBA_BOUNDSCHECK": "1", "XDG_CACHE_HOME": str(cache_home() / "checked")},
        ("columnar/batch_reader", "columnar/unread_records", "columnar/vm"),
    )


def again(settings: dict[str, str], names: tuple[str, ...]) -> None:
    """Run the tests of these modules in a process with other settings."""
    tests = Path(__file__).parents[1]
    files = [str((tests / name).with_name(f"test_{Path(name).name}.py")) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    run = subprocess.run(command, env=os.environ | settings, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:]


def test_summaries_of_records_stand_beside_the_rows() -> None:
    frames = [
        frame for frame in everything(Random(8)) if (frame.key, frame.response) in ((0, False), (1, True))
    ]
    columns, arena = read_frames(frames)
    spans = columns.partitions.spans("record_set")
    for at in range(len(columns.partitions)):
        start, length = int(spans.start[at]), int(spans.length[at])
        found = {name: int(columns.records[name][at]) for name in SUMMARY}
        assert found == (
            summary_of(arena[start : start + length]) if start >= 0 else dict.fromkeys(SUMMARY, -1)
        )
