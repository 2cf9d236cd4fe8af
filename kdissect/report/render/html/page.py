"""From data and assets to one HTML file: it fetches nothing, and runs only its own script.

The data is JSON in a script element of another type; `<` is escaped in it, so no captured name can end the
element. A content security policy forbids every request, and all scripts and styles but the two whose hashes
it names. Scripts put text from captures into the document through `textContent` only.

The style and the policy are those of all pages.
"""

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

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


DARK = re.compile(r'^:root\[data-theme="dark"\] (\{.*?^\})', re.MULTILINE | re.DOTALL)


def asset(name: str) -> str:
    """Return a file of the page."""
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def static_style() -> str:
    """Return the style for a page without a script: dark where the reader's system is."""
    return DARK.sub(
        r"@media screen and (prefers-color-scheme: dark) { :root \1 }", asset("page.css"), count=1
    )


def content_security_policy(style: str, script: str | None = None) -> str:
    """Return a policy that permits this style, this script, and no request."""
    scripts = f"script-src '{_hash(script)}'; " if script is not None else ""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; {scripts}img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
