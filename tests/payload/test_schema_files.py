"""Schemas in a folder: by id, by subject, with references, and files that cannot be read."""

from pathlib import Path

import pytest

from kdissect.errors import UserError
from kdissect.payload.schema_files import MOST_BYTES, SchemaFolder
from kdissect.payload.schema_store import Schema, SchemaKind


def test_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "17.avsc").write_text('"string"')
    (tmp_path / "orders-value.json").write_text("{}")
    (tmp_path / "18.desc").write_bytes(b"\x0a\0")
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "17.refs").mkdir()
    (tmp_path / "17.refs" / "a.avsc").write_text('"int"')
    folder = SchemaFolder(str(tmp_path))
    first = folder.by_id(17)
    assert isinstance(first, Schema)
    assert (first.kind, first.definition, first.parts) == (SchemaKind.AVRO, '"string"', ('"int"',))
    values, protobuf = folder.by_subject("orders-value"), folder.by_id(18)
    assert values is not None
    assert values.kind is SchemaKind.JSON
    assert protobuf is not None
    assert protobuf.definition == b"\x0a\0"
    assert folder.by_id(19) is None
    assert folder.by_subject("notes") is None


def test_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no schemas"):
        SchemaFolder(str(tmp_path))
    with pytest.raises(UserError, match="cannot read schemas"):
        SchemaFolder(str(tmp_path / "missing"))
    (tmp_path / "1.avsc").write_bytes(b"\xff\xfe")
    (tmp_path / "2.avsc").write_bytes(b" " * (MOST_BYTES + 1))
    folder = SchemaFolder(str(tmp_path))
    for number, reason in ((1, "no text in UTF-8"), (2, "more than")):
        with pytest.raises(ValueError, match=reason):
            folder.by_id(number)


def test_the_text_of_protobuf_is_refused_with_the_command_that_compiles_it(tmp_path: Path) -> None:
    (tmp_path / "18.proto").write_text('syntax = "proto3";')
    with pytest.raises(UserError, match=r"18\.proto is text .*--descriptor_set_out=18\.desc 18\.proto"):
        SchemaFolder(str(tmp_path))
    (tmp_path / "17.avsc").write_text('"int"')
    folder = SchemaFolder(str(tmp_path))
    with pytest.raises(ValueError, match=r"18\.proto is text that must be compiled"):
        folder.by_id(18)
    (tmp_path / "18.desc").write_bytes(b"")
    found = SchemaFolder(str(tmp_path)).by_id(18)
    assert found is not None
    assert found.kind is SchemaKind.PROTOBUF
