"""HTML and SVG from Python values: elements that escape everything that is not markup already.

    element("p", "a < b", class_="soft")      <p class='soft'>a &lt; b</p>

A `Markup` is text that needs no more escaping; only this module makes one of captured text. Control
characters and what turns a line round are written as escapes first (see `kdissect.text`). A template engine
such as Jinja2 would be one more dependency for a page of ten sections, and would need the same care for SVG.
"""

from html import escape as escape_html

from kdissect.text import escape

VOID = frozenset({"meta", "wbr"})
"""Elements without an end tag (HTML Living Standard, section 13.1.2)."""
EMPTY = frozenset({"line", "path", "rect"})
"""Elements of SVG that have no content here."""


class Markup(str):
    """Text that is escaped already."""

    __slots__ = ()


NOTHING = Markup()
LINE_BREAK_HERE = Markup("<wbr>")


def markup(value: object) -> Markup:
    """Return a value as markup: what is markup already as it is, all else escaped."""
    return value if isinstance(value, Markup) else Markup(escape_html(escape(str(value)), quote=True))


def element(tag: str, /, *content: object, **attributes: object) -> Markup:
    """Return an element with its content, escaped where it is not markup.

    In the names of attributes, an underscore stands for a hyphen, and one at the end for nothing (`class_`).
    Attributes that are None are left out.
    """
    start = " ".join(
        [tag, *(_attribute(name, value) for name, value in attributes.items() if value is not None)]
    )
    if tag in VOID:
        return Markup(f"<{start}>")
    if tag in EMPTY and not content:
        return Markup(f"<{start}/>")
    return Markup(f"<{start}>{joined(*content)}</{tag}>")


def _attribute(name: str, value: object) -> str:
    return f"{name.rstrip('_').replace('_', '-')}='{escape_html(escape(str(value)), quote=True)}'"


def joined(*content: object) -> Markup:
    """Return several values as one piece of markup."""
    return Markup("".join(map(markup, content)))
