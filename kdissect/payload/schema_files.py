"""Schemas from a folder, by the names of its files.

    17.avsc                 the schema with id 17
    b1a6….avsc              the schema with that GUID, as 8-4-4-4-12 hexadecimal digits
    orders-value.avsc       the values of topic `orders`, where no id stands in front of them
    orders-key.json         its keys

The suffix tells the language: `.avsc` Avro, `.desc` Protobuf, `.json` JSON Schema. A `.desc` file is what
`protoc --include_imports --descriptor_set_out=17.desc orders.proto` writes. The text of a `.proto` file is
not read: the Protobuf library has no parser for it. Beside `NAME.avsc` a folder `NAME.refs` may hold the
schemas that it refers to; they are read in the order of their names.
"""

from pathlib import Path
from uuid import UUID

from kdissect.errors import UserError
from kdissect.payload.schema_store import Schema, SchemaKind

SUFFIXES = {".avsc": SchemaKind.AVRO, ".desc": SchemaKind.PROTOBUF, ".json": SchemaKind.JSON}
UNCOMPILED = ".proto"
MOST_BYTES = 4 << 20  # of one file
REFERENCES = ".refs"


class SchemaFolder:
    """The schemas in the files of a folder."""

    def __init__(self, folder: str) -> None:
        """Raise UserError if the folder cannot be read, or has no schema."""
        self._files: dict[str, Path] = {}
        self._uncompiled: dict[str, Path] = {}
        try:
            for path in sorted(Path(folder).iterdir()):
                if path.suffix in SUFFIXES and path.is_file():
                    self._files.setdefault(path.stem, path)
                elif path.suffix == UNCOMPILED:
                    self._uncompiled[path.stem] = path
        except OSError as error:
            raise UserError(
                f"cannot read schemas from {folder}: {(error.strerror or 'error').lower()}"
            ) from None
        if not self._files and self._uncompiled:
            raise UserError(f"{folder}: {_how_to_compile(next(iter(self._uncompiled.values())))}")
        if not self._files:
            raise UserError(f"{folder} has no schemas: files such as 17.avsc, 17.desc or orders-value.json")

    @property
    def is_empty(self) -> bool:
        """Return whether it is known to have no schema at all."""
        return False

    def by_id(self, number: int) -> Schema | None:
        """Return the schema with an id, None if there is none. Raise ValueError with a reason."""
        return self.by_subject(str(number))

    def by_guid(self, guid: UUID) -> Schema | None:
        """Return the schema with a GUID, None if there is none. Raise ValueError with a reason."""
        return self.by_subject(str(guid))

    def by_subject(self, subject: str) -> Schema | None:
        """Return the schema of a subject, None if there is none. Raise ValueError with a reason."""
        path = self._files.get(subject)
        if path is None and subject in self._uncompiled:
            raise ValueError(_how_to_compile(self._uncompiled[subject]))
        if path is None:
            return None
        try:
            data = _read(path)
            folder = path.with_suffix(REFERENCES)
            parts = [_read(part) for part in sorted(folder.iterdir())] if folder.is_dir() else []
            kind = SUFFIXES[path.suffix]
            if kind is SchemaKind.PROTOBUF:
                return Schema(kind, data)
            return Schema(kind, data.decode(), tuple(part.decode() for part in parts))
        except UnicodeDecodeError:
            raise ValueError(f"{path.name} is no text in UTF-8") from None
        except OSError as error:
            raise ValueError(f"cannot read {path.name}: {(error.strerror or 'error').lower()}") from None


def _how_to_compile(path: Path) -> str:
    command = f"protoc --include_imports --descriptor_set_out={path.stem}.desc {path.name}"
    return f"{path.name} is text that must be compiled: {command}"


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES:,} bytes")
    return data
