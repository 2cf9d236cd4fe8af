"""The options of `kdissect replay`: what they accept, what they refuse and with which sentence."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from kdissect.cli.arguments import parse
from kdissect.cli.replay import settings_of
from kdissect.cli.replay_options import GROUPS, addresses
from kdissect.errors import UsageError
from kdissect.protocol.api_keys import ApiKey
from kdissect.replay.net import auth
from kdissect.replay.settings import Groups, Offsets, Pace, ReplaySettings, Timestamps

RUN = ["replay", "run", "a.pcap", "--target", "kafka.test:9092"]
OPTIONS = {option.flag: option for options in GROUPS.values() for option in options}


def settings(*more: str) -> ReplaySettings:
    return settings_of(parse([*RUN, *more]))


@pytest.mark.parametrize(
    ("flag", "values"),
    [("--groups", Groups), ("--offsets", Offsets), ("--timestamps", Timestamps), ("--pace", Pace)],
)
def test_choices_are_the_values_of_the_settings(flag: str, values: type[StrEnum]) -> None:
    assert OPTIONS[flag].type == tuple(values)


def test_mechanisms_are_those_that_can_be_spoken() -> None:
    assert OPTIONS["--sasl"].type == auth.MECHANISMS


def test_addresses_may_be_several_and_of_any_family() -> None:
    assert addresses("a.test:1, 10.0.0.1:2,[::1]:3") == [("a.test", 1), ("10.0.0.1", 2), ("::1", 3)]


REFUSED = [
    ("--target", "kafka.test", "'kafka.test' is not an address; examples: kafka.test:9092"),
    ("--target", "kafka.test:99999", "is not an address"),
    ("--target", "::1:9092", "is not an address"),
    ("--topic-map", "orders", "'orders' is not a mapping; example: orders=orders-test"),
    ("--topic-map", "=new", "is not a mapping"),
    ("--topic-id", "short=orders", "'short' is not a topic id"),
    ("--allow", "Produce", "Produce needs no --allow; --allow is for "),
    ("--allow", "Envelope", "Envelope is never sent"),
    ("--speed", "0", "'0' is not a number above 0"),
    ("--speed", "inf", "is not a number above 0"),
    ("--speed", "1e-9", "'1e-9' is not a speed from 0.001 to 1,000,000"),
    ("--speed", "1e300", "'1e300' is not a speed"),
    ("--max-duration", "0s", "'0s' is not a duration above 0"),
    ("--answer-deadline", "0ms", "'0ms' is not a duration above 0"),
    ("--max-errors", "1.5", "'1.5' is not a share of 1"),
    ("--loop", "0", "'0' is not a whole number above 0"),
    ("--max-bytes", "2x", "is not a size"),
]


@pytest.mark.parametrize(("flag", "value", "sentence"), REFUSED)
def test_what_makes_no_sense_is_refused_with_a_sentence(
    flag: str, value: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        parse([*RUN, flag, value])
    assert exit.value.code == 2
    assert sentence in capsys.readouterr().err


ASKED: list[tuple[list[str], Callable[[ReplaySettings], Any], Any]] = [
    (
        [],
        lambda s: (s.prefix, s.pace, s.speed, s.processes, s.caps.connections, s.tls),
        ("replay-", Pace.SCHEDULE, 1.0, 0, None, None),
    ),
    (["--isolated-target", "--prefix", "x-"], lambda s: s.prefix, ""),
    (["--topic-map", "a=b", "--topic-map", "c=d"], lambda s: s.topic_map, {"a": "b", "c": "d"}),
    (["--max-mbps", "1.5"], lambda s: s.caps.bytes_per_second, 1_500_000.0),
    (["--max-bytes", "2m"], lambda s: s.caps.bytes_in_all, 2 << 20),
    (["--max-duration", "90s", "--ramp", "1m"], lambda s: (s.caps.duration_s, s.ramp_s), (90.0, 60.0)),
    (["--max-errors", "0.1"], lambda s: s.breaker.error_share, 0.1),
    (["--answer-deadline", "10s"], lambda s: (s.answer_deadline_s, s.dependency_deadline_s), (10.0, 15.0)),
    (["--allow", "DeleteTopics"], lambda s: s.allowed_apis, {ApiKey.DELETE_TOPICS}),
    (["--insecure"], lambda s: s.tls and s.tls.insecure, True),
    (
        ["--client", "reader*", "--since", "+5s"],
        lambda s: (s.filter(7).clients, s.filter(7).since_ns),
        (("reader*",), 5 * 10**9 + 7),
    ),
]


@pytest.mark.parametrize(("arguments", "value", "expected"), ASKED)
def test_options_become_settings(
    arguments: list[str], value: Callable[[ReplaySettings], Any], expected: object
) -> None:
    assert value(settings(*arguments)) == expected


@pytest.mark.parametrize("asked", [("--speed", "2"), ("--ramp", "10s"), ("--max-gap", "0s")])
def test_a_pace_that_keeps_no_time_has_no_option_of_time(asked: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=f"{asked[0]} has no effect at --pace asap"):
        settings("--pace", "asap", *asked)
    assert settings("--pace", "think", *asked).pace is Pace.THINK


def test_a_login_needs_a_user_and_a_password(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    with pytest.raises(UsageError, match="--sasl needs --user"):
        settings("--tls", "--sasl", "PLAIN")
    monkeypatch.delenv("KDISSECT_SASL_PASSWORD", raising=False)
    with pytest.raises(UsageError, match="needs a password"):
        settings("--tls", "--sasl", "PLAIN", "--user", "me")
    monkeypatch.setenv("KDISSECT_SASL_PASSWORD", "secret")
    known = settings("--tls", "--sasl", "PLAIN", "--user", "me").credentials
    assert known is not None
    assert (known.mechanism, known.user, known.password) == ("PLAIN", "me", "secret")
    file = tmp_path / "password"
    file.write_text("from the file\nand not this\n")
    known = settings("--tls", "--sasl", "PLAIN", "--user", "me", "--password-file", str(file)).credentials
    assert known is not None
    assert known.password == "from the file"
