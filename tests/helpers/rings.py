"""Rings of capture files, and the tables that a watch has made of them."""

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import dpkt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.spark import tasks
from kdissect.streams.tls.keylog import keys_for
from kdissect.tables.build import dissect_batches
from kdissect.tables.schemas import TABLES
from tests.helpers.in_batches import WANTED, pieces_of

CAPTURES = Path(__file__).parents[2] / "captures"
HEADER_BYTES, RECORD_BYTES = 24, 16


def packets_of(capture: Path) -> tuple[bytes, list[bytes]]:
    """Return the header of a little-endian pcap file, and its records."""
    data = capture.read_bytes()
    records, at = [], HEADER_BYTES
    while at < len(data):
        size = RECORD_BYTES + struct.unpack_from("<I", data, at + 8)[0]
        records.append(data[at : at + size])
        at += size
    return data[:HEADER_BYTES], records


def as_pcap(capture: Path) -> bytes:
    """Return a pcapng file as a pcap file with times in nanoseconds."""
    with capture.open("rb") as file:
        reader = dpkt.pcapng.Reader(file)
        out = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 1 << 18, reader.datalink())
        for seconds, data in reader:
            whole, rest = divmod(round(float(seconds) * 10**9), 10**9)
            out += struct.pack("<IIII", whole, rest, len(data), len(data)) + data
    return out


def ring_files(capture: Path, count: int) -> list[bytes]:
    """Return a capture cut into files."""
    header, records = packets_of(capture)
    edges = [len(records) * number // count for number in range(count + 1)]
    return [header + b"".join(records[start:stop]) for start, stop in pairwise(edges)]


def write_ring(folder: Path, files: Sequence[bytes], first: int = 0) -> list[Path]:
    """Write files of a ring; each is complete before it has its name."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number, data in enumerate(files, first):
        path = folder / f"ring-{number:05}.pcap"
        part = folder / f".{path.name}"
        part.write_bytes(data)
        part.rename(path)
        paths.append(path)
    return paths


def tables_at_once(folder: Path | str) -> dict[str, pa.Table]:
    """Return the tables of all files of a folder, which may be a URI, dissected in one go."""
    index = index_captures(open_inputs([str(folder)], "").files)
    batches = list(
        dissect_batches(pieces_of(index.splits), index.splits, keys_for(None, index.files), WANTED)
    )
    names = tasks.topic_names(
        pair for batch in batches if "names" in batch for pair in tasks.name_pairs(batch["names"])
    )
    found = {name: [batch[name] for batch in batches if name in batch] for name in TABLES}
    return _in_order(
        {name: [rows.select(TABLES[name].names) for rows in parts] for name, parts in found.items()}, names
    )


def tables_of_watch(out: Path) -> dict[str, pa.Table]:
    """Return the tables that a watch has written, with all names of topics that it has learnt."""
    names: dict[str, str] = {}
    for path in sorted(out.glob("topic_names/*.parquet")):
        names |= dict(
            zip(*(column.to_pylist() for column in pq.ParquetFile(path).read().columns), strict=True)
        )
    found = {
        name: [
            batch.cast(TABLES[name])
            for path in sorted(out.glob(f"{name}/hour=*/*.parquet"))
            for batch in pq.ParquetFile(path).read().to_batches()
        ]
        for name in TABLES
    }
    return _in_order(found, names)


def tables_of_delta(out: Path) -> dict[str, pa.Table]:
    """Return the tables that a watch has written, as the reader of Delta finds them."""
    names = DeltaTable(out / "topic_names").to_pyarrow_table() if (out / "topic_names").exists() else None
    known = dict(zip(*(column.to_pylist() for column in names.columns), strict=True)) if names else {}
    found = {
        name: DeltaTable(out / name).to_pyarrow_table().select(schema.names).cast(schema).to_batches()
        for name, schema in TABLES.items()
        if (out / name).exists()
    }
    return _in_order({name: found.get(name, []) for name in TABLES}, known)


def _in_order(found: Mapping[str, Sequence[pa.RecordBatch]], names: Mapping[str, str]) -> dict[str, pa.Table]:
    """Return tables in an order that depends on their rows alone."""
    return {
        name: pa.Table.from_batches(
            [tasks.with_topics(rows, names) if name == "partitions" else rows for rows in parts], TABLES[name]
        )
        .sort_by([(column, "ascending") for column in TABLES[name].names])
        .combine_chunks()
        for name, parts in found.items()
    }


def assert_same(found: Mapping[str, pa.Table], expected: Mapping[str, pa.Table]) -> None:
    for name, table in expected.items():
        assert found[name].num_rows == table.num_rows, name
        different = [column for column in table.column_names if not table[column].equals(found[name][column])]
        assert not different, (name, different)


def download(place: str, folder: Path) -> Path:
    """Copy tables to a local folder, which is returned."""
    from pyarrow import fs

    system, inside = fs.FileSystem.from_uri(place)
    folder.mkdir()
    fs.copy_files(inside, str(folder), source_filesystem=system, destination_filesystem=fs.LocalFileSystem())
    return folder
