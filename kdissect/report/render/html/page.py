"""From data and assets to one HTML file: it fetches nothing, and runs only its own script.

The data is JSON in a script element of another type; `<` is escaped in it, so no captured name can end the
element. A content security policy forbids every request, and all scripts and styles but the two whose hashes
it names. Scripts put text from captures into the document through `textContent` only.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from kdissect.report.render.html.style import asset, content_security_policy

SCRIPTS = (
    "format",
    "elements",
    "data",
    "pivot",
    "view",
    "state",
    "exchange",
    "sequence",
    "packets",
    "axes",
    "timeline",
    "heatmap",
    "tables",
    "overview",
    "findings",
    "incidents",
    "latency",
    "who",
    "topics",
    "groups",
    "producers",
    "connections",
    "quality",
    "search",
    "start",
)
"""In the order in which they run: each uses those before it."""

MARK = re.compile(r"%%(\w+)%%")


def render_page(data: Mapping[str, Any]) -> str:
    """Return the page of the data that `build.page.page_data` makes; the same data gives the same text."""
    style, script = asset("page.css"), "\n".join(_scripts())
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    parts = {
        "policy": escape(content_security_policy(style, script)),
        "title": escape(_title(data["capture"]["files"])),
        "style": style,
        "data": text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"),
        "script": script,
    }
    # The template is cut first and filled then: a captured name that looks like a mark stays text.
    pieces = MARK.split(asset("page.html"))
    return "".join(parts[piece] if at % 2 else piece for at, piece in enumerate(pieces))


def _title(names: Sequence[str]) -> str:
    if not names:
        return "kdissect"
    return f"{names[0]} · kdissect" if len(names) == 1 else f"{len(names)} captures · kdissect"


def _scripts() -> Iterator[str]:
    yield '"use strict";'
    for name in SCRIPTS:
        yield asset(f"{name}.js")
