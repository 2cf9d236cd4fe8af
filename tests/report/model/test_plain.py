"""Values of the model as dictionaries and lists."""

from dataclasses import dataclass

from kdissect.report.model.plain import to_plain


@dataclass
class Name:
    """A name in two parts."""

    first: str
    last: str | None


@dataclass
class Row:
    """A row with a name beside its counts."""

    name: Name
    counts: tuple[int, ...]
    child: Name


def test_fields_of_a_name_stand_beside_those_of_its_row():
    row = Row(Name("a", None), (1, 2), Name("b", "c"))
    assert to_plain(row) == {
        "first": "a",
        "last": None,
        "counts": [1, 2],
        "child": {"first": "b", "last": "c"},
    }


def test_order_is_that_of_the_fields():
    assert list(to_plain(Row(Name("a", None), (), Name("b", None)))) == ["first", "last", "counts", "child"]


def test_a_plain_name_stays_a_field():
    @dataclass
    class Finding:
        name: str

    assert to_plain((Finding("x"), 3, None)) == [{"name": "x"}, 3, None]
