"""Nothing that is installed with kdissect has a licence of the GPL kind, or one that nobody can tell."""

from email.message import Message

import pytest

from tests.licences import closure, dependencies, is_accepted, licences, stated


def test_the_product_has_accepted_licences_only() -> None:
    rows = list(licences(closure(dependencies())))
    assert {"pyspark", "py4j", "numpy", "llvmlite", "cramjam", "cryptography"} <= {row.name for row in rows}
    assert [row for row in rows if not row.accepted] == []


def test_scapy_is_for_tests_only_and_would_not_be_accepted() -> None:
    assert "scapy" not in {each.name for each in closure(dependencies())}
    (scapy,) = licences(closure(["scapy"]))
    assert not scapy.accepted


@pytest.mark.parametrize(
    ("expression", "accepted"),
    [
        ("Apache-2.0", True),
        ("BSD-3-Clause AND 0BSD AND (MIT)", True),
        ("GPL-2.0-only OR MIT", True),
        ("BSD-2-Clause AND Apache-2.0 WITH LLVM-exception", True),
        ("GPL-2.0-only", False),
        ("LGPL-2.1-or-later", False),
        ("AGPL-3.0-only AND MIT", False),
        ("MIT AND LGPL-3.0-only OR GPL-3.0-only", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_expressions(expression: str, accepted: bool) -> None:
    assert is_accepted(expression) is accepted


def about(**fields: list[str]) -> Message:
    message = Message()
    for name, values in fields.items():
        for value in values:
            message[name.replace("_", "-")] = value
    return message


@pytest.mark.parametrize(
    ("fields", "licence"),
    [
        ({"License_Expression": ["MIT"], "License": ["something else"]}, "MIT"),
        ({"Classifier": ["License :: OSI Approved :: BSD License", "Topic :: System"]}, "BSD"),
        ({"Classifier": ["License :: OSI Approved :: GPLv2"]}, "GPLv2"),
        ({"License": ["Apache License, Version 2.0"]}, "Apache-2.0"),
        ({"License": ["x" * 1000]}, ""),
        ({}, ""),
    ],
)  # fmt: skip
def test_what_metadata_states(fields: dict[str, list[str]], licence: str) -> None:
    assert stated(about(**fields)) == licence
