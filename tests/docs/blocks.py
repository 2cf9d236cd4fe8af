"""Pages with generated blocks: the files in docs/ come in, the files as they should be go out.

Every block that can be generated stands in exactly one page, so no command, table or finding is left out.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from tests.docs import columns, command_line, data_quality, findings, incidents, measurements

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"<!-- generated: (?P<name>[\w ]+) -->\n.*?<!-- end -->", re.DOTALL)


@cache
def blocks() -> Mapping[str, Callable[[], str]]:
    """Return what makes each block, by the name that stands in the page."""
    return {
        **command_line.blocks(),
        **columns.blocks(),
        **findings.blocks(),
        **incidents.blocks(),
        **data_quality.blocks(),
        **measurements.blocks(),
    }


def blocks_in(text: str) -> list[str]:
    """Return the names of the generated blocks of a page, in order."""
    return [found["name"] for found in BLOCK.finditer(text)]


def renewed(text: str) -> str:
    """Return a page with all its blocks made anew. Raise KeyError for a block that nothing makes."""

    def make(found: re.Match[str]) -> str:
        name = found["name"]
        return f"<!-- generated: {name} -->\n\n{blocks()[name]()}\n\n<!-- end -->"

    return BLOCK.sub(make, text)


def stale_pages() -> dict[str, str]:
    """Return the pages whose blocks are not as the code has them, with the text that they should have."""
    pages = {path.name: path.read_text("utf-8") for path in sorted(DOCS.glob("*.md"))}
    return {name: new for name, old in pages.items() if (new := renewed(old)) != old}
