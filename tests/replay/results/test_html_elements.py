"""Elements escape what is not markup already."""

from __future__ import annotations

from kdissect.replay.results.html_elements import Markup, element, joined, markup


def test_text_and_attributes_are_escaped_once() -> None:
    evil = "<b>&'\"\x1b"
    inner = element("span", evil, title=evil)
    assert inner == ("<span title='&lt;b&gt;&amp;&#x27;&quot;\\x1b'>&lt;b&gt;&amp;&#x27;&quot;\\x1b</span>")
    assert element("p", inner, Markup("<wbr>"), 5) == f"<p>{inner}<wbr>5</p>"
    assert joined(inner, "<") == markup(inner) + "&lt;"


def test_names_of_attributes_are_those_of_html_and_svg() -> None:
    assert element("div", class_="a b", aria_hidden="true", tabindex=0, id=None) == (
        "<div class='a b' aria-hidden='true' tabindex='0'></div>"
    )
    assert element("svg", viewBox="0 0 1 1") == "<svg viewBox='0 0 1 1'></svg>"


def test_elements_without_content_end_as_html_or_svg_ends_them() -> None:
    assert element("meta", charset="utf-8") == "<meta charset='utf-8'>"
    assert element("rect", x=1) == "<rect x='1'/>"
    assert element("rect", element("title", "x")) == "<rect><title>x</title></rect>"
