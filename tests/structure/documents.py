"""Links in the documents lead somewhere, tables are even, and documents made from the code are up to date.

A link is checked if it is relative: its file must be there, and its `#anchor` must be a heading of that
Markdown file, spelled as GitHub does, or an `id` or `name` in its HTML. Code blocks and code spans are not
looked into.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import unquote

from tests.structure.project import Finding, Project

DOCUMENTS = (
    "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
    "captures/README.md", "docs/**/*.md", "reports/**/*.md",
)  # fmt: skip

INLINE = re.compile(r"\[(?:[^\]\[]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+[\"'][^)]*)?\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s*<?(\S+?)>?(?:\s|$)", re.MULTILINE)
HTML = re.compile(r"<(?:a|img|source)\b[^>]*?\b(?:href|src)=[\"']([^\"']+)[\"']")
OUTSIDE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")
FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
CELL_EDGE = re.compile(r"(?<!\\)\|")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)\s*#*\s*$")
ANCHOR = re.compile(r"\b(?:id|name)=[\"']([^\"']+)[\"']")


@dataclass(frozen=True)
class Generator:
    """A command that exits with 0 if the documents that it makes are up to date.

    `command` are the arguments of Python, run in the root of the checkout. A line of its output that begins
    with the path of a document is a finding for it. `documents` is where a finding goes if the command
    fails without such a line.
    """

    documents: str
    command: tuple[str, ...]


GENERATORS = (Generator("docs", ("-m", "tests.docs", "--check")),)  # the JSON Schema of reports, too


def documents(project: Project) -> Iterator[tuple[Path, str]]:
    """Yield all documents, each with its name."""
    for path in sorted({path for pattern in DOCUMENTS for path in project.root.glob(pattern)}):
        yield path, path.relative_to(project.root).as_posix()


def table_rows(project: Project) -> Iterator[Finding]:
    """Yield the rows of tables that have more or fewer cells than the head of their table."""
    for path, name in documents(project):
        width = 0
        for number, line in enumerate(prose(path.read_text(encoding="utf-8")), 1):
            cells = len(CELL_EDGE.findall(line)) - 1 if line.startswith("|") else 0
            if width and cells and cells != width:
                yield Finding(name, number, "table-row", f"{cells} cells, and {width} in the head")
            width = (width or cells) if cells else 0


def links(project: Project) -> Iterator[Finding]:
    """Yield the relative links of the documents that lead nowhere."""
    for path, name in documents(project):
        text = "\n".join(prose(path.read_text(encoding="utf-8")))
        for pattern in (INLINE, REFERENCE, HTML):
            for match in pattern.finditer(text):
                if problem := _problem(project.root, path, match[1]):
                    yield Finding(name, text.count("\n", 0, match.start(1)) + 1, "link", problem)


def _problem(root: Path, document: Path, link: str) -> str:
    """Return what is wrong with a link, or an empty text."""
    if OUTSIDE.match(link):
        return ""
    name, _, anchor = link.partition("#")
    target = (document.parent / unquote(name)).resolve() if name else document
    if not target.is_relative_to(root.resolve()):
        return f"{link} leads out of the repository"
    if not target.exists():
        return f"{link}: there is no such file"
    if anchor and target.suffix == ".md" and unquote(anchor) not in anchors(target):
        return f"{link}: there is no such heading"
    return ""


def prose(text: str) -> list[str]:
    """Return the lines of Markdown with the code in them made blank."""
    lines = []
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if closes else fence
            lines.append("")
        elif mark:
            fence = mark[1]
            lines.append("")
        else:
            lines.append(SPAN.sub(lambda span: " " * len(span[0]), line))
    return lines


@cache
def anchors(path: Path) -> frozenset[str]:
    """Return what links to parts of a Markdown file may name."""
    text = path.read_text(encoding="utf-8")
    found = {*ANCHOR.findall(text)}
    for line, shown in zip(text.splitlines(), prose(text), strict=True):
        if HEADING.match(shown) and (heading := HEADING.match(line)):
            slug = slug_of(heading[1])
            later = (f"{slug}-{number}" for number in count(1))
            found.add(slug if slug not in found else next(name for name in later if name not in found))
    return frozenset(found)


def slug_of(heading: str) -> str:
    """Return the anchor of a heading as GitHub spells it: lower case, no marks, hyphens for spaces."""
    shown = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.lower()).strip().replace(" ", "-")


def generated(project: Project, generators: tuple[Generator, ...] | None = None) -> Iterator[Finding]:
    """Yield the documents that are not as their generator makes them."""
    for generator in GENERATORS if generators is None else generators:
        if not (project.root / generator.documents).exists():
            continue
        command = [sys.executable, *generator.command]
        ran = subprocess.run(command, cwd=project.root, capture_output=True, text=True, check=False)
        if not ran.returncode:
            continue
        lines = (ran.stdout + ran.stderr).strip().splitlines() or ["no reason is given"]
        how = f"python {' '.join(generator.command)}"
        stale = [line for line in lines if _names_document(project.root, line)]
        for line in stale or lines[-1:]:
            name = line.split()[0] if stale else generator.documents
            yield Finding(name, 1, "generated", f"not as its generator makes it ({how}): {line}")


def _names_document(root: Path, line: str) -> bool:
    return bool(line.strip()) and (root / line.split(maxsplit=1)[0]).is_file()
