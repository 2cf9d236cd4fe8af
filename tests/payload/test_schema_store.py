"""Each schema is looked up once, in one source after the other."""

from uuid import UUID

from kdissect.payload.schema_store import Schema, SchemaKind, SchemaStore

ONE = Schema(SchemaKind.AVRO, '"string"')


class Source:
    is_empty = False

    def __init__(self, known: dict[int | UUID | str, Schema], fails: bool = False) -> None:
        self.known, self.fails, self.asked = known, fails, 0

    def by_id(self, number: int) -> Schema | None:
        return self._of(number)

    def by_guid(self, guid: UUID) -> Schema | None:
        return self._of(guid)

    def by_subject(self, subject: str) -> Schema | None:
        return self._of(subject)

    def _of(self, wanted: int | UUID | str) -> Schema | None:
        self.asked += 1
        if self.fails:
            raise ValueError("out of order")
        return self.known.get(wanted)


def test_the_first_source_that_has_it() -> None:
    broken, empty, full = Source({}, fails=True), Source({}), Source({17: ONE, "a-value": ONE})
    store = SchemaStore([broken, empty, full])
    assert store.find(17) is ONE
    assert store.find("a-value") is ONE
    assert store.has_id(17)
    assert full.asked == 2
    assert store.find(18) == "out of order"
    assert not store.has_id(18)
    assert SchemaStore([empty]).find(18) is None
