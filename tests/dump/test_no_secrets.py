"""Nothing that lets anyone in leaves by any way out: passwords, tokens, SCRAM proofs, the secrets of TLS."""

import base64
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.capture.scan import scan_split
from kdissect.report.build.build_report import build_report
from kdissect.report.model.summary import CaptureFacts
from kdissect.report.partials import merge, summarise
from kdissect.report.render.json import to_json
from kdissect.report.render.report_text import render
from kdissect.report.render.terminal import Terminal
from kdissect.streams.tls.keylog import keys_for
from kdissect.tables.build import dissect_batches
from tests.helpers.command_here import kdissect_here

CAPTURES = Path(__file__).parents[2] / "captures"
PASSWORDS = ("correct-horse-battery", "not-the-password")
"""Passwords of the users in sasl.pcapng (tests/lab/security.py and tests/lab/scenarios/sasl.py)."""


def dumped(name: str, *options: str) -> str:
    done = kdissect_here("dump", str(CAPTURES / name), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@cache
def outputs(name: str) -> dict[str, str]:
    """Everything that can be made of a capture, by name."""
    found = index_captures(open_inputs([str(CAPTURES / name)], "").files)
    keys = keys_for(None, found.files)
    tables = list(dissect_batches([scan_split(split) for split in found.splits], found.splits, keys))
    summary = build_report(merge([summarise(batches) for batches in tables]), CaptureFacts())
    return {
        "text dump": dumped(name, "--records"),
        "brief dump": dumped(name, "--brief"),
        "JSON dump": dumped(name, "--format", "jsonl", "--records"),
        "tables": json.dumps([table.to_pylist() for batches in tables for table in batches.values()]),
        "report": render(summary, Terminal(200, full=True)),
        "JSON report": to_json(summary),
        "keys": repr(keys),
    }


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for key, inner in value.items() if key == "auth_bytes" for text in [inner]] + [
            text for inner in value.values() for text in _strings(inner)
        ]
    return [text for inner in value for text in _strings(inner)] if isinstance(value, list) else []


@cache
def tokens() -> set[bytes]:
    """Every SASL token in the capture, as one who asks for secrets is shown them."""
    lines = dumped("sasl.pcapng", "--format", "jsonl", "--show-secrets").splitlines()
    said = {text for line in lines if line.startswith("{") for text in _strings(json.loads(line)) if text}
    return {base64.b64decode(text) for text in said}


@pytest.mark.slow
def test_there_are_tokens_of_every_mechanism() -> None:
    """Else what follows would prove nothing."""
    joined = b"\n".join(tokens())
    for password in PASSWORDS:
        assert b"\0alice\0" + password.encode() in joined
    assert b"auth=Bearer " in joined
    assert len(re.findall(rb"p=[A-Za-z0-9+/=]{40,}", joined)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("way", ["text dump", "brief dump", "JSON dump", "tables", "report", "JSON report"])
def test_no_token_leaves(way: str) -> None:
    said = outputs("sasl.pcapng")[way]
    assert len(said) > 500
    for password in PASSWORDS:
        assert password not in said
    for token in tokens():
        assert base64.b64encode(token).decode() not in said
        for part in re.findall(rb"[\x21-\x7e]{12,}", token):
            assert part.decode() not in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["text dump", "brief dump", "JSON dump", "tables", "report", "JSON report", "keys"]
)
def test_no_key_leaves(way: str) -> None:
    raw = (CAPTURES / "tls.pcapng").read_bytes()
    secrets = {
        match[1].decode() for match in re.finditer(rb"(?:[0-9A-F]{64} |Master-Key:)([0-9A-F]{64,96})", raw)
    }
    assert len(secrets) > 30
    said = outputs("tls.pcapng")[way].upper()
    assert said
    assert not [secret for secret in secrets if secret in said]
