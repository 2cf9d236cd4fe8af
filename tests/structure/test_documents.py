"""Links that lead nowhere, uneven tables, and documents that are not as their generator makes them."""

import pytest

from tests.structure.conftest import Make
from tests.structure.documents import Generator, anchors, generated, links, table_rows

DOCUMENT = """# All of it

## The `--by` option, and *more*

## Twice

<a id="here"></a>

## Twice
"""


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("[a](docs/gone.md)", "docs/gone.md: there is no such file"),
        ("[a](docs/all.md#gone)", "docs/all.md#gone: there is no such heading"),
        ("[a](#gone)", "#gone: there is no such heading"),
        ("[a](../README.md)", "../README.md leads out of the repository"),
        ("![picture](docs/gone.png)", "docs/gone.png: there is no such file"),
        ('[![picture](docs/all.md)](docs/gone.md "title")', "docs/gone.md: there is no such file"),
        ("[a]: docs/gone.md", "docs/gone.md: there is no such file"),
        ('<img width="9" src="docs/gone.png">', "docs/gone.png: there is no such file"),
        ("| cell | [`code`](gone.md) |", "gone.md: there is no such file"),
    ],
)
def test_a_dead_link(make: Make, link: str, problem: str) -> None:
    (finding,) = links(make({"docs/all.md": DOCUMENT, "README.md": f"# Title\n\n{link}\n"}))
    assert str(finding) == f"README.md:3: link: {problem}"


@pytest.mark.parametrize(
    "link",
    [
        "[a](docs/all.md)",
        "[a](docs/)",
        "[a](#title)",
        "[a](docs/all.md#the---by-option-and-more)",
        "[a](docs/all.md#twice-1)",
        "[a](docs/all.md#here)",
        "[a](kdissect/__init__.py#L1)",
        "[a](https://example.org/gone) and <mailto:a@example.org>",
        "`[a](gone.md)` and ``[`a`](gone.md)``",
        "```text\n[a](gone.md)\n```",
        "~~~~\n~~~\n[a](gone.md)\n~~~~",
    ],
)
def test_a_link_that_leads_somewhere(make: Make, link: str) -> None:
    assert not list(links(make({"docs/all.md": DOCUMENT, "README.md": f"# Title\n\n{link}\n"})))


def test_a_row_with_another_number_of_cells(make: Make) -> None:
    even = "| a | b |\n| --- | --- |\n| `x \\|| y` \\| z | 1 |\n"
    code = "```\n| a | b |\n| c |\n```\n| a |\n"
    assert not list(table_rows(make({"README.md": f"{even}\n| alone |\n\n{code}"})))
    findings = list(table_rows(make({"README.md": f"{even}| 1 | 2 | 3 |\n| 1 |\n"})))
    assert [str(finding) for finding in findings] == [
        "README.md:4: table-row: 3 cells, and 2 in the head",
        "README.md:5: table-row: 1 cells, and 2 in the head",
    ]


@pytest.mark.parametrize(
    "document",
    ["CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "captures/README.md", "docs/a/b.md", "reports/c.md"],
)
def test_documents_that_are_looked_into(make: Make, document: str) -> None:
    (finding,) = links(make({document: "[a](gone.md)\n"}))
    assert finding.path == document


def test_anchors_are_spelled_as_github_does(make: Make) -> None:
    project = make({"docs/all.md": DOCUMENT + "```\n# no heading\n```\n"})
    assert anchors(project.root / "docs/all.md") == {
        "all-of-it", "the---by-option-and-more", "twice", "here", "twice-1",
    }  # fmt: skip


def generator(code: str) -> Generator:
    return Generator("docs", ("-c", code))


def test_a_stale_document(make: Make) -> None:
    project = make({"docs/cli.md": "", "docs/tables.md": ""})
    stale = generator("import sys; print('checking'); print('docs/cli.md is stale'); sys.exit(1)")
    (finding,) = generated(project, (stale, generator("print('docs/tables.md is fine')")))
    assert str(finding).startswith("docs/cli.md:1: generated: not as its generator makes it (python -c ")
    assert finding.sentence.endswith(": docs/cli.md is stale")


def test_a_generator_that_fails(make: Make) -> None:
    (finding,) = generated(make({"docs/cli.md": ""}), (generator("raise ValueError('broken')"),))
    assert finding.path == "docs"
    assert finding.sentence.endswith(": ValueError: broken")
