"""The licences of what is installed with kdissect: `python -m tests.licences`.

In: the dependencies that pyproject.toml names for users (also of the extras in EXTRAS, as far as they are
installed), and the metadata of the distributions that they lead to. Out: a table, and exit
code 1 if a licence is not one of `ACCEPTED`, which may all be distributed with a product under Apache-2.0.
Licences of the GPL kind and licences that nobody can tell are not. Tests may use others: scapy is GPL-2.0,
and nothing of the product imports it.
"""

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
EXTRAS = ("hdfs", "connect", "metrics", "otlp", "delta", "payload")  # for users; others are for tests
ACCEPTED = frozenset({
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC",
    "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "BSD",
})  # fmt: skip
"""SPDX identifiers, and `BSD`, which old metadata writes for one of its kinds."""

SPOKEN = {
    "3-clause bsd license": "BSD-3-Clause",
    "apache 2.0": "Apache-2.0",
    "apache license 2.0": "Apache-2.0",
    "apache license, version 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd license": "BSD",
    "bsd 3-clause": "BSD-3-Clause",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
"""Names of licences in classifiers and the field `License`, in small letters."""

LONGEST_NAME = 60  # of a licence: the field may hold its whole text


class Licence(NamedTuple):
    """A distribution, and what it says about its licence."""

    name: str
    version: str
    says: str  # an SPDX expression, or what old metadata has instead
    accepted: bool


def dependencies() -> list[str]:
    """Return the requirements of the product."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    more = (requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra])
    return [*project["dependencies"], *more]


def closure(requirements: list[str]) -> list[metadata.Distribution]:
    """Return the installed distributions that requirements lead to, by name."""
    found: dict[str, metadata.Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in requirements]
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        for wanted in ("", *sorted(requirement.extras)):
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            try:
                found[name] = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                continue  # of an extra that is not installed
            waiting += [(Requirement(text), wanted) for text in found[name].requires or ()]
    return [found[name] for name in sorted(found)]


def stated(about: Message) -> str:
    """Return the stated licence: an expression (PEP 639), else what classifiers say, else a short name."""
    if expression := about.get("License-Expression"):
        return str(expression)
    classifiers = [
        text.rpartition(" :: ")[2]
        for text in about.get_all("Classifier") or ()
        if text.startswith("License ::")
    ]
    names = classifiers or [str(about.get("License") or "").strip()]
    known = [SPOKEN.get(name.lower(), name) for name in names if name and len(name) <= LONGEST_NAME]
    return " OR ".join(known)


def is_accepted(expression: str) -> bool:
    """Return whether a licence may be distributed with the product: all parts of AND, one part of OR."""
    plain = re.sub(r"[()]", " ", expression)
    alternatives = re.split(r"\s+OR\s+", plain.strip(), flags=re.IGNORECASE)
    return any(
        all(part.strip() in ACCEPTED for part in re.split(r"\s+AND\s+", each, flags=re.IGNORECASE))
        for each in alternatives
    )


def licences(found: list[metadata.Distribution]) -> Iterator[Licence]:
    """Yield the licence of each distribution."""
    for each in found:
        says = stated(each.metadata)
        yield Licence(each.name, each.version, says or "unknown", is_accepted(says))


def missing(requirements: list[str], found: list[metadata.Distribution]) -> list[str]:
    """Return the requirements that are not installed, so that their licence cannot be told."""
    names = {canonicalize_name(each.name) for each in found}
    wanted: Mapping[str, Requirement] = {text: Requirement(text) for text in requirements}
    return [
        text
        for text, requirement in wanted.items()
        if (requirement.marker is None or requirement.marker.evaluate({"extra": ""}))
        and canonicalize_name(requirement.name) not in names
    ]


def main() -> int:
    """Print the table; return the exit code."""
    requirements = dependencies()
    found = closure(requirements)
    rows = list(licences(found))
    width = max(len(row.name) for row in rows)
    for row in rows:
        print(
            f"{row.name:{width}}  {row.version:12}  {row.says}{'' if row.accepted else '  <- not accepted'}"
        )
    refused = [row.name for row in rows if not row.accepted]
    for text in missing(requirements, found):
        print(f"not installed, so not looked at: {text}")
    print(f"{len(rows)} distributions, {len(refused)} with a licence that is not accepted")
    return int(bool(refused))


if __name__ == "__main__":
    sys.exit(main())
