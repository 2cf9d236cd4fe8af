"""The style that all pages share, and the policy that permits no other style or script."""

import base64
import hashlib
import re
from importlib.resources import files

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
