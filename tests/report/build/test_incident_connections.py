"""The connections of an incident: those of its servers and clients while it lasted, refused ones too."""

from pathlib import Path

import pytest

from kdissect.capture.index.index import index_captures
from kdissect.capture.inputs import open_inputs
from kdissect.cli.incident_choice import choose_incident
from kdissect.errors import UsageError
from kdissect.report.build.incident_connections import IncidentConnections
from kdissect.streams.tls.keylog import keys_for

INCIDENTS = Path(__file__).parents[3] / "captures" / "incidents"
pytestmark = pytest.mark.slow


def chosen(name: str, folder: Path, number: int = 1) -> tuple[str, IncidentConnections]:
    inputs = open_inputs([str(INCIDENTS / f"{name}.pcapng.zst")], str(folder))
    found = index_captures(inputs.files, 2 << 20)
    return choose_incident(number, found, (), keys_for(None, found.files))


def test_a_frozen_broker_and_whoever_waited_for_it(tmp_path: Path) -> None:
    headline, about = chosen("broker-frozen-1", tmp_path)
    assert headline.startswith("Broker 3 (127.0.0.1:39092) froze at 16:37:01.125 for 5.88s")
    assert about.end_ns is not None
    assert 5.8 < (about.end_ns - about.begin_ns) / 1e9 < 5.9
    assert 1425062011044745 in about.connections  # that its evidence names
    assert 4 <= len(about.connections) <= 24


def test_refused_attempts_belong_to_a_killed_broker(tmp_path: Path) -> None:
    headline, about = chosen("broker-killed-1", tmp_path)
    assert "152 attempts to connect refused" in headline
    assert len(about.connections) >= 152


def test_a_number_without_incident(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no incident 9: the report of these captures has 1 inc"):
        chosen("broker-killed-1", tmp_path, 9)
