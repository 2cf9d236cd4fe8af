"""The style of pages, and the policy that permits only it."""

import base64
import hashlib

from kdissect.report.render.html.style import asset, content_security_policy, static_style


def test_a_page_without_a_script_is_dark_where_the_system_is():
    style = static_style()
    assert "@media screen and (prefers-color-scheme: dark)" in style
    assert '[data-theme="dark"] {\n' not in style.split("@media screen")[0]
    assert len(style) > 1000


def test_the_policy_names_the_hashes_of_style_and_script():
    expected = base64.b64encode(hashlib.sha256(b"a{}").digest()).decode()
    policy = content_security_policy("a{}")
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{expected}'" in policy
    assert "script-src" not in policy
    assert "script-src 'sha256-" in content_security_policy("a{}", "x()")


def test_assets_are_text():
    assert "%%data%%" in asset("page.html")
